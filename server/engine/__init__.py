"""Run an app on one machine, in this process or in workers."""
