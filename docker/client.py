"""Start a client: claim a slot that no other replica holds, and become a SuperNode under that slot's key.

Replicas of a Compose service have no stable index. Each takes the lowest slot whose lock is free; the lock belongs to
the process and is gone with it, however it ends. A slot is a client: number, name, key, data and durable state lie in
its folder, so whichever container takes the slot next goes on where the last one stopped.
"""

import fcntl
import os
import sys
import time
from itertools import count
from pathlib import Path

from docker.pki import make_client_key

CLIENTS, ENROLMENT, RUNS, DATA = Path("/clients"), Path("/enrolment"), Path("/runs"), Path("/data")
TRUST = Path("/pki/trust/ca.crt")
HEALTH = "127.0.0.1:9095"


def claim(folder: Path) -> int:
    """Return the number of the lowest free slot, and hold it for as long as this process lives."""
    for slot in count():
        (folder / str(slot)).mkdir(exist_ok=True)
        lock = os.open(folder / str(slot) / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        os.set_inheritable(lock, True)  # it must live on in the SuperNode that this process becomes
        return slot
    raise AssertionError("unreachable: count() does not end")


def node_config(slot: int, prefix: str) -> str:
    """Return what the SuperNode tells its app about itself, in Flower's syntax."""
    values = {
        "name": f'"{prefix}-{slot}"',
        "partition-id": str(slot),
        "state-dir": f'"{CLIENTS / str(slot) / "state"}"',
        "partition-file": f'"{RUNS / ".current" / "partition.npy"}"',
        "data-dir": f'"{DATA}"',
    }
    return " ".join(f"{key}={value}" for key, value in values.items())


def main() -> None:
    """Claim a slot, enrol its key, wait until it is registered, and become the SuperNode."""
    superlink = os.environ.get("AOI_SUPERLINK", "superlink:9092")
    slot = claim(CLIENTS)
    name = f"{os.environ.get('AOI_CLIENT_PREFIX', 'client')}-{slot}"
    key = CLIENTS / str(slot) / "key"
    make_client_key(key, ENROLMENT / f"{name}.pub")
    print(f"this is {name}", flush=True)
    while not (ENROLMENT / f"{name}.registered").exists():
        time.sleep(0.5)
    command = [
        "flower-supernode",
        "--superlink",
        superlink,
        "--root-certificates",
        str(TRUST),
        "--auth-supernode-private-key",
        str(key),
        "--node-config",
        node_config(slot, name.rpartition("-")[0]),
        "--clientappio-api-address",
        "127.0.0.1:9094",
        "--health-server-address",
        HEALTH,
    ]
    os.execvp(command[0], [*command, *sys.argv[1:]])


if __name__ == "__main__":
    main()
