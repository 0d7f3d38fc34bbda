"""Power supply and metered network of a Linux device; missing answers are not guessed."""

import subprocess
from pathlib import Path

_SUPPLIES = Path("/sys/class/power_supply")
_NETWORK_MANAGER = (
    "busctl",
    "--system",
    "get-property",
    "org.freedesktop.NetworkManager",
    "/org/freedesktop/NetworkManager",
    "org.freedesktop.NetworkManager",
    "Metered",
)
_METERED = {"u 1": True, "u 2": False, "u 3": True, "u 4": False}  # yes, no, and NetworkManager's guess at either


def charging() -> bool:
    """Return whether the device has external power; always true without a battery.

    The kernel's documentation of ``sysfs-class-power`` describes the files.
    """
    found = list(_SUPPLIES.iterdir()) if _SUPPLIES.is_dir() else []
    own = [supply for supply in found if _read(supply / "scope") != "Device"]  # not a mouse's or a headset's
    batteries = [_read(supply / "status") for supply in own if _read(supply / "type") == "Battery"]
    plugged = any(_read(supply / "online") == "1" for supply in own if _read(supply / "type") != "Battery")
    # A full battery, or one that does not charge now, has external power even if no mains are listed.
    return plugged or all(status in ("Charging", "Full", "Not charging") for status in batteries)


def metered() -> bool | None:
    """Return whether NetworkManager considers the network metered; None if it does not answer."""
    try:
        done = subprocess.run(_NETWORK_MANAGER, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return _METERED.get(done.stdout.strip()) if done.returncode == 0 else None


def _read(attribute: Path) -> str:
    """Return an attribute of a power supply, or "" if it cannot be read."""
    try:
        return attribute.read_text().strip()
    except OSError:
        return ""
