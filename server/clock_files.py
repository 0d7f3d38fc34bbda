"""The files that the run key ``clock`` names, and whether they are what they were."""

import hashlib
from pathlib import Path


def digest_of(clock: str) -> str:
    """Return a digest of what is in the files that a clock names; of one that names none, ""."""
    paths = [Path(part) for part in clock.split(",")]
    if not all(path.is_file() for path in paths):
        return ""
    found = hashlib.sha256()
    for path in paths:
        found.update(path.read_bytes())
    return found.hexdigest()
