"""Power and network price of a Linux device; a missing answer is unknown, not guessed."""

import subprocess
from pathlib import Path

_SUPPLIES = Path("/sys/class/power_supply")
_NETWORK_MANAGER = (
    "busctl", "--system", "get-property", "org.freedesktop.NetworkManager", "/org/freedesktop/NetworkManager",
    "org.freedesktop.NetworkManager", "Metered",
)  # fmt: skip
_METERED = {"u 1": True, "u 2": False, "u 3": True, "u 4": False}  # yes, no, and NetworkManager's guess at either


def charging(supplies: Path = _SUPPLIES) -> bool:
    """Say whether the device takes its power from outside; one that has no battery always does.

    Parameters
    ----------
    supplies : the kernel's folder of power supplies, described in its documentation of ``sysfs-class-power``
    """
    found = list(supplies.iterdir()) if supplies.is_dir() else []
    own = [supply for supply in found if _read(supply / "scope") != "Device"]  # else it is a mouse's, or a headset's
    batteries = [_read(supply / "status") for supply in own if _read(supply / "type") == "Battery"]
    plugged = any(_read(supply / "online") == "1" for supply in own if _read(supply / "type") != "Battery")
    # A full battery, or one that waits with charging, is plugged in even where no mains are listed.
    return plugged or all(status in ("Charging", "Full", "Not charging") for status in batteries)


def metered(command: tuple[str, ...] = _NETWORK_MANAGER) -> bool | None:
    """Say whether the network is paid by volume, by NetworkManager's word; None where that is not to be had."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return _METERED.get(done.stdout.strip()) if done.returncode == 0 else None


def _read(attribute: Path) -> str:
    """Return an attribute of a power supply; empty where it is missing or cannot be read."""
    try:
        return attribute.read_text().strip()
    except OSError:
        return ""
