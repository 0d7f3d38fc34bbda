"""The policies that ours are compared with; a row of the policies' table loads each when it is chosen."""
