"""The client: it counts the secrets that it reads, the addresses that it reaches and the places that it can write."""

import os
import socket
from contextlib import suppress
from pathlib import Path

from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()
# Files of a SuperNode: its keys and configuration, the owner's limits, promises and receipts.
MARKS = ("client.key", "key", "superlink.env", "node.toml", "gate.json", "receipts.jsonl")


def secrets():
    """Return the SuperNode's files that this process can read."""
    found = []
    for folder, _, names in os.walk("/"):
        if folder.startswith(("/proc", "/sys", "/usr")):
            continue
        for name in (name for name in names if name in MARKS):
            with suppress(OSError), open(Path(folder) / name, "rb"):
                found.append(str(Path(folder) / name))
    return found


def reached(addresses):
    """Return the addresses that answer, and the interfaces beside the loopback."""
    lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    found = [name for name in (line.split(":")[0].strip() for line in lines) if name != "lo"]
    for address in addresses.split():
        host, _, port = address.rpartition(":")
        with suppress(OSError):
            socket.create_connection((host, int(port)), 2).close()
            found.append(address)
    return found


@app.train()
def train(message: Message, context: Context) -> Message:
    """Report what there is, as numbers."""
    leaks = {"secrets": secrets(), "reached": reached(str(message.content["config"]["addresses"]))}
    counts = {name: len(found) for name, found in leaks.items()} | {"num-examples": 1, "user": os.getuid()}
    data = Path(str(context.node_config.get("data-file", "/nowhere")))
    counts |= {"readable": int(os.access(data, os.R_OK)), "writable": int(os.access(data.parent, os.W_OK))}
    print("LEAKS", leaks, flush=True)
    return Message(RecordDict({"arrays": message.content["arrays"], "metrics": MetricRecord(counts)}), reply_to=message)
