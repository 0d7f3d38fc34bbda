"""Templates of an edge client's systemd unit, timer and node configuration."""

import sys
from pathlib import Path

import aoi_fl
from aoi_fl.client.session import FILE

# A client trains the built-in models in less; systemd ends and restarts one that takes more.
_MEMORY = "768M"

_UNIT = """\
[Unit]
Description=AoI-FL client {name}
# TLS and the key's signatures need the right time, which a board without a battery learns from the network.
Wants=network-online.target time-sync.target
After=network-online.target time-sync.target
{wants}StartLimitIntervalSec=0

[Service]
User={user}
EnvironmentFile={folder}/superlink.env
Environment=PATH={bin}:/usr/local/bin:/usr/bin:/bin
Environment=HOME={state} FLWR_HOME={state}/flwr
Environment=FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1 GRPC_ENABLE_FORK_SUPPORT=0
WorkingDirectory={state}
ExecStart={command}{more}
# Where it fails, or is refused, try again, for ever.
Restart={restart}
RestartSec=15
# CUDA's libraries alone need more than this: 3G is a fair value on a Jetson.
MemoryMax={memory}
TasksMax=256
# The client may write its state and its data folder, and nothing else.
StateDirectory=aoi/{name}
StateDirectoryMode=0700
ReadWritePaths=-{folder}/data
{serving}UMask=0077
ProtectHome=read-only
PrivateTmp=yes
{hardened}"""
# With the sandbox: the folder of the app's socket, which the app's unit shares by the account's group.
_SERVING = """\
RuntimeDirectory=aoi-{name}
RuntimeDirectoryMode=0770
"""
_APP = """\
[Unit]
Description=AoI-FL client {name}: the app that the server sends, without network, key and the client's state
BindsTo=aoi-{name}.service
After=aoi-{name}.service
StartLimitIntervalSec=0

[Service]
DynamicUser=yes
SupplementaryGroups={group}
Environment=PATH={bin}:/usr/local/bin:/usr/bin:/bin
Environment=HOME={state} FLWR_HOME={state}/flwr USER=app
Environment=FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1 GRPC_ENABLE_FORK_SUPPORT=0
WorkingDirectory={state}
ExecStart={python} -m aoi_fl.client.sandbox {socket}
Restart=always
RestartSec=15
MemoryMax={memory}
TasksMax=256
# No network but an empty loopback; the socket's folder, the data to read, and a state of its own.
PrivateNetwork=yes
IPAddressDeny=any
IPAddressAllow=localhost
ReadWritePaths={socket.parent}
ProtectHome=tmpfs
TemporaryFileSystem={folder}/:ro {state.parent}:ro
BindReadOnlyPaths={readable}
StateDirectory=aoi-{name}-app
BindPaths=/var/lib/private/aoi-{name}-app:{state}
UMask=0007
ProtectProc=invisible
ProcSubset=pid
PrivateIPC=yes
{hardened}"""
_HARDENED = """\
ProtectSystem=strict
NoNewPrivileges=yes
CapabilityBoundingSet=
RestrictSUIDSGID=yes
RestrictRealtime=yes
RestrictNamespaces=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
LockPersonality=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
SystemCallArchitectures=native
"""
_INSTALL = """
[Install]
WantedBy=multi-user.target
"""
# The client's process ends between its rounds after it has written the time of its return. The timer starts it in the
# first minute after that time. The test of each minute uses a shell's own commands and little memory. An incomplete
# file counts as due.
_CONDITION = """\
ExecCondition=/bin/sh -c 'test ! -r {session} || {{ read -r back rest < {session}; \
  ! test "$$(date +%%s)" -lt "$${{back:-0}}"; }}'
"""
TIMER = """\
[Unit]
Description=AoI-FL client {name}: each minute, whether it is time to be there

[Timer]
OnActiveSec=1s
OnUnitInactiveSec=1min
AccuracySec=5s

[Install]
WantedBy=timers.target
"""

_NODE = """\
# Configuration of this client, read at its start. All keys: docs/edge.md.
name = "{name}"
state-dir = "{state}"

# The data: either a file of this client, an npz file with the arrays x and y (docs/own.md),
data-file = "{data}/train.npz"
# A command that renews that file, run without a shell; the file's time is the age of the data.
# refresh-command = "/usr/local/bin/collect-images {data}/train.npz"
# How many seconds make the data one round older.
# round-seconds = 60.0

# or a share of the run's data set, by number, with the server's partition file and the data set in data-dir. Then
# remove data-file.
# partition-id = 0
# partition-file = "{data}/partition.npy"
# data-dir = "{data}"
# Folder with the module of the model, if the run has model=python:MODULE:FUNCTION.
# model-dir = "{data}"

# Rules of the owner, for any app and any server (docs/gate.md); without a rule the client may always take part.
# hours = "22:00-06:00"
# only-charging = true
# only-unmetered = true
# min-separation = 7
# min-hours = 6.0
# max-updates = 1000
# max-norm = 10.0
# max-bytes = 100000000
# metrics = "num-examples, loss"
# evaluate = "metrics-only"
# apps = "approved"
# pause = "2027-01-06"

# Words by which a run may choose its clients (clients=tag:WORD), separated by commas.
# tags = "ward-7"

# With coordination=reserve the client sleeps until shortly before its next round; false: it looks all the time.
sleep = true

# For policies under a budget: the price of a refresh, and the weight of the age of this client's data.
# payment = 1.0
# sensitivity = 1.0
"""


def command(folder: Path, superlink: str, session: Path) -> str:
    """Return the command that runs a client, over several lines of a shell or a unit."""
    return (
        f"{sys.executable} -m aoi_fl.client.supernode --superlink {superlink} --root-certificates {folder}/ca.crt \\\n"
        f"  --auth-supernode-private-key {folder}/client.key --node-config {folder}/node.toml \\\n"
        f"  --clientappio-api-address 127.0.0.1:0 --session {session}"
    )


def unit(name: str, folder: Path, state: Path, user: str, *, timed: bool, sandbox: bool) -> str:
    """Return the systemd unit of a client.

    Parameters
    ----------
    name : the client's name
    folder : the client's folder, absolute
    state : the folder of systemd's ``StateDirectory``
    user : the account of the client
    timed : whether the client's process ends between its rounds, and a timer starts it again
    sandbox : whether the app's processes run in the unit of :func:`app_unit`
    """
    socket = f" --app-socket {_socket(name)}" if sandbox else ""
    filled = _UNIT.format(
        name=name,
        folder=folder,
        state=state,
        user=user,
        bin=Path(sys.executable).parent,
        memory=_MEMORY,
        command=command(folder, "${SUPERLINK}", state / FILE),
        more=(" --leave" if timed else "") + socket,
        wants=f"Wants=aoi-{name}-app.service\n" if sandbox else "",
        serving=_SERVING.format(name=name) if sandbox else "",
        hardened=_HARDENED,
        restart="on-failure" if timed else "always",
    )
    if not timed:
        return filled + _INSTALL
    return filled.replace("ExecStart=", _CONDITION.format(session=state / FILE) + "ExecStart=")


def app_unit(name: str, folder: Path, state: Path, group: str) -> str:
    """Return the systemd unit of the app's processes; it starts and ends with the client's.

    Its account is new at each start, and reads the socket and the data by ``group``, the group of the client's account.
    """
    places = {Path(sys.prefix), Path(sys.base_prefix), Path(aoi_fl.__file__).parents[1], folder / "data"}
    return _APP.format(
        name=name,
        folder=folder,
        state=state,
        group=group,
        bin=Path(sys.executable).parent,
        python=sys.executable,
        memory=_MEMORY,
        socket=_socket(name),
        readable=" ".join(sorted(map(str, places))),
        hardened=_HARDENED,
    )


def _socket(name: str) -> Path:
    return Path(f"/run/aoi-{name}/app")


def node_toml(name: str, state: Path, data: Path) -> str:
    """Return a client's node configuration in the form of ``flower-supernode --node-config``."""
    return _NODE.format(name=name, state=state, data=data)
