"""The processor of a measurement."""

import platform


def processor():
    """Return the processor's name."""
    return field("model name") or platform.processor() or platform.machine()


def field(name):
    """Return a field of the system's description of the processor, or None."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next((line.partition(":")[2].strip() for line in file if line.startswith(name)), None)
    except OSError:
        return None
