"""Tools for the owner of a device: enrolment, the systemd unit, status and diagnosis."""
