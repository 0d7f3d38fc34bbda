"""The owner's gate: limits of a device that no server can switch off."""
