"""Every key of a run with default, range, help, group and policies, and generators of docs."""
