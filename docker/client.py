"""Start a client: claim a free slot, and become a SuperNode with that slot's key.

Replicas of a Compose service have no stable index. Each takes the lowest slot with a free lock, which the system
releases when the process ends. A slot is a client: its folder has number, name, data and durable state. So the next
container of a slot continues the client. The private key is only in the container. A container that takes over a slot
makes its own key, which is enrolled again. A slot has a user of its own (:mod:`aoi_fl.docker.users`): SuperNode and app
read no other client's files, and enrol no key.
"""

import fcntl
import os
import socket
import sys
import time
from contextlib import suppress
from itertools import count
from pathlib import Path

from aoi_fl.client.device import reach
from aoi_fl.client.session import FILE
from aoi_fl.docker import settings
from aoi_fl.docker.nodes import fingerprint
from aoi_fl.docker.pki import make_client_key
from aoi_fl.docker.users import APP, acting_as, become, hand_over, user_of
from aoi_fl.flower.superlink import own_address
from aoi_fl.protocol import CLIENTS_FILE, PARTITION_FILE
from aoi_fl.protocol.files import write_whole
from aoi_fl.server.folder import DEALT

CLIENTS, ENROLMENT, DATA = Path("/clients"), Path("/enrolment"), Path("/data")
KEYS = Path("/keys")  # in this container only
TRUST = Path("/pki/trust/ca.crt")
HEALTH = "127.0.0.1:9095"


def claim(folder: Path, *, apart: bool = False) -> int:
    """Return the lowest free slot, and hold it until this process ends; ``apart``: it belongs to a user of its own."""
    for slot in count():
        own, user = folder / str(slot), user_of(slot, apart)
        with acting_as(user and APP):
            own.mkdir(exist_ok=True)
        lock = _open_lock(own, user)
        if lock is None:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        hand_over(own, user)  # with the lock: a running client keeps its folder
        os.set_inheritable(lock, True)  # the SuperNode, which this process becomes, keeps it
        return slot
    raise AssertionError("unreachable: count() does not end")


def _open_lock(own: Path, user: int | None) -> int | None:
    """Open a slot's lock as its folder's owner, or as the slot's user after a broken hand-over; None: another's."""
    for reader in dict.fromkeys((user and own.stat().st_uid, user)):
        with acting_as(reader), suppress(PermissionError):
            return os.open(own / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    return None


def share(state: Path) -> None:
    """Link the server's files with images and terms into the client's state folder.

    The server copies them there when a run begins. Before the first run the links point nowhere.
    """
    state.mkdir(exist_ok=True)
    for name in (PARTITION_FILE, CLIENTS_FILE):
        link = state / name
        link.unlink(missing_ok=True)
        link.symlink_to(DEALT / name)


def own_folder(slot: int, keys: Path = KEYS, user: int | None = None) -> Path:
    """Return the folder of a slot's key in this container."""
    own = keys / str(slot)
    with acting_as(user and APP):
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
    hand_over(own, user)
    return own


def choose_gpu(slot: int, devices: Path = Path("/dev")) -> None:
    """Let a client with GPUs see one of them, so that clients are spread over the GPUs."""
    gpus = len(list(devices.glob("nvidia[0-9]*")))
    if gpus and "CUDA_VISIBLE_DEVICES" not in os.environ:
        os.environ["CUDA_VISIBLE_DEVICES"] = str(slot % gpus)


def node_config(slot: int, name: str, sleep: bool = True) -> str:
    """Return the node configuration in Flower's syntax; ``sleep``: sleep between rounds."""
    own = DATA / "clients" / name  # if the operator has laid down data for this client alone
    data = {"data-file": f'"{own / "train.npz"}"'} if (own / "train.npz").exists() else {}
    values = {
        "name": f'"{name}"',
        "partition-id": str(slot),
        "state-dir": f'"{CLIENTS / str(slot) / "state"}"',
        "data-dir": f'"{own if own.is_dir() else DATA}"',
        "model-dir": f'"{DATA / "models"}"',
        "sleep": str(sleep).lower(),
    } | data
    return " ".join(f"{key}={value}" for key, value in values.items())


def main() -> None:
    """Claim a slot, enrol its key, wait until it is registered, and become the SuperNode."""
    superlink = os.environ.get("AOI_SUPERLINK", "superlink:9092")
    reach.check(superlink, TRUST)
    apart = os.getuid() == 0
    slot = claim(CLIENTS, apart=apart)
    user, name = user_of(slot, apart), f"{os.environ.get('AOI_CLIENT_PREFIX', 'client')}-{slot}"
    own = own_folder(slot, user=user)
    key = own / "key"
    with acting_as(user):
        share(CLIENTS / str(slot) / "state")
        make_client_key(key, own / "public")
        public = (own / "public").read_bytes()
    choose_gpu(slot)
    container = socket.gethostname()  # the id of `docker ps`
    with acting_as(user and APP):
        write_whole(ENROLMENT / f"{name}.pub", public, 0o644)
        write_whole(ENROLMENT / f"{name}.container", container.encode())
    print(f"this is {name}, container {container}", flush=True)
    print(f"its key is {fingerprint(public)}", flush=True)
    become(user)
    registered = ENROLMENT / f"{name}.registered"
    while not registered.exists() or registered.read_bytes() != public:
        time.sleep(0.5)
    config = node_config(slot, name, settings.may_sleep(os.environ))
    command = [
        sys.executable,
        "-m",
        "aoi_fl.client.supernode",
        "--superlink",
        superlink,
        "--root-certificates",
        str(TRUST),
        "--auth-supernode-private-key",
        str(key),
        "--node-config",
        config,
        *own_address(9094),
        "--health-server-address",
        HEALTH,
        "--session",
        str(own / FILE),
    ]
    os.execvp(command[0], [*command, *sys.argv[1:]])


if __name__ == "__main__":
    main()
