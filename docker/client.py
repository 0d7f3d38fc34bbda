"""Start a client: claim a slot that no other replica holds, and become a SuperNode under that slot's key.

Replicas of a Compose service have no stable index. Each takes the lowest slot whose lock is free; the lock belongs to
the process and is gone with it, however it ends. A slot is a client: number, name, data and durable state lie in its
folder, so whichever container takes the slot next goes on where the last one stopped. The private key lies in the
container and nowhere else: a container that takes over a slot makes a key of its own, which is enrolled anew.
"""

import fcntl
import os
import socket
import sys
import time
from itertools import count
from pathlib import Path

from aoi_fl.client.device import reach
from aoi_fl.client.session import FILE
from aoi_fl.docker import settings
from aoi_fl.docker.pki import make_client_key
from aoi_fl.flower.superlink import own_address
from aoi_fl.protocol import CLIENTS_FILE, PARTITION_FILE
from aoi_fl.protocol.files import write_whole

CLIENTS, ENROLMENT, RUNS, DATA = Path("/clients"), Path("/enrolment"), Path("/runs"), Path("/data")
KEYS = Path("/keys")  # in the container itself, out of reach of every other
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


def share(state: Path) -> None:
    """Let the client find what the server deals out, its images and its terms, beside its own state.

    The links lead into the current run, and nowhere while there is none.
    """
    state.mkdir(exist_ok=True)
    for name in (PARTITION_FILE, CLIENTS_FILE):
        link = state / name
        if not link.is_symlink():
            link.symlink_to(RUNS / ".current" / name)


def own_folder(slot: int, keys: Path = KEYS, clients: Path = CLIENTS) -> Path:
    """Return the folder of a slot's key in this container; a key that former versions shared is taken away."""
    for former in ("key", FILE):
        (clients / str(slot) / former).unlink(missing_ok=True)
    own = keys / str(slot)
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    return own


def choose_gpu(slot: int, devices: Path = Path("/dev")) -> None:
    """Let a client that was given GPUs see one of them, so that clients spread over what there is."""
    gpus = len(list(devices.glob("nvidia[0-9]*")))
    if gpus and "CUDA_VISIBLE_DEVICES" not in os.environ:
        os.environ["CUDA_VISIBLE_DEVICES"] = str(slot % gpus)


def node_config(slot: int, name: str, sleep: bool = True) -> str:
    """Return the SuperNode's node configuration in Flower's syntax; ``sleep``: between its rounds."""
    values = {
        "name": f'"{name}"',
        "partition-id": str(slot),
        "state-dir": f'"{CLIENTS / str(slot) / "state"}"',
        "data-dir": f'"{DATA}"',
        "model-dir": f'"{DATA / "models"}"',
        "sleep": str(sleep).lower(),
    }
    return " ".join(f"{key}={value}" for key, value in values.items())


def main() -> None:
    """Claim a slot, enrol its key, wait until it is registered, and become the SuperNode."""
    superlink = os.environ.get("AOI_SUPERLINK", "superlink:9092")
    reach.check(superlink, TRUST)
    slot = claim(CLIENTS)
    name = f"{os.environ.get('AOI_CLIENT_PREFIX', 'client')}-{slot}"
    own = own_folder(slot)
    key = own / "key"
    share(CLIENTS / str(slot) / "state")
    public, registered = ENROLMENT / f"{name}.pub", ENROLMENT / f"{name}.registered"
    make_client_key(key, public)
    choose_gpu(slot)
    container = socket.gethostname()  # the id of `docker ps`
    write_whole(ENROLMENT / f"{name}.container", container.encode())
    print(f"this is {name}, container {container}", flush=True)
    while not registered.exists() or registered.read_bytes() != public.read_bytes():
        time.sleep(0.5)
    config = node_config(slot, name, settings.may_sleep(os.environ))
    command = [
        sys.executable, "-m", "aoi_fl.client.supernode", "--superlink", superlink, "--root-certificates", str(TRUST),
        "--auth-supernode-private-key", str(key), "--node-config", config, *own_address(9094),
        "--health-server-address", HEALTH, "--session", str(own / FILE),
    ]  # fmt: skip
    os.execvp(command[0], [*command, *sys.argv[1:]])


if __name__ == "__main__":
    main()
