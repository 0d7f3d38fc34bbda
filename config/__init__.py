"""Every key of a run, once: default, range, help, group and policies; and what is generated from the table."""
