"""A full disk ends a run, keeps complete rounds, and lets it go on later."""

import os
import signal
import subprocess
from contextlib import suppress

import pytest

from aoi_fl.server.folder import CHECKPOINTS
from tests.server.interrupted import (
    arguments_of,
    assert_same,
    configuration,
    recorded,
    resume_here,
    signalled,
    wait_for,
)


@pytest.fixture
def disk(tmp_path):
    """Return a folder on a disk of 2 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "aoi-test", folder], capture_output=True).returncode:
        pytest.skip("a small disk to fill up is a tmpfs, and mounting one is not permitted here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(disk):
    """Leave no room on a disk; removing the file that is returned makes room again."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        while True:
            file.write(bytes(4096))
    return ballast


@pytest.mark.parametrize("what", ["checkpoints", "everything"])
def test_a_full_disk_ends_the_run_and_keeps_complete_rounds(what, start, whole, disk, tmp_path):
    folder = (tmp_path if what == "checkpoints" else disk) / "full"
    folder.mkdir()
    if what == "checkpoints":  # they alone lie on the disk that fills up
        (disk / "checkpoints").mkdir()
        (folder / CHECKPOINTS).symlink_to(disk / "checkpoints")
    # After round 2 no checkpoint is removed yet, so nothing makes room for that of round 3.
    script = signalled("committed", 2, signal.SIGSTOP)
    process = start(*arguments_of(configuration("poll", folder.parent, "full")), script=script)
    wait_for(folder, 2, process)
    ballast = fill(disk)
    while process.is_alive():
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(process.pid, signal.SIGCONT)
        process.join(0.05)
    output = process.output.read_text()
    assert process.exitcode == 2, output
    assert "Traceback" not in output
    message = " ".join(output[output.rindex("aoi: ") :].split())
    assert "No space left" in message
    if what == "checkpoints":
        assert "model-3.safetensors" in message
        assert f"aoi resume {folder} (a cluster" in message
    assert recorded(folder) == 2
    ballast.unlink()
    resume_here(folder)
    assert_same(folder, whole("poll"))
