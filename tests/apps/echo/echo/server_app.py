"""The server's half: asks every node once, prints what it saw as lines of JSON, and fails if told to."""

import json
import os
import time

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

app = ServerApp()


def show(name: str, value: object) -> None:
    """Print one thing as a line that a test can find."""
    print(f"{name} {json.dumps(value)}", flush=True)


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Wait for the nodes, ask each for its word, then return, or raise what ``fail`` says."""
    config = context.run_config
    show("CONFIG", dict(config))
    show("SERVER", {"folder": os.getcwd(), "mark": os.environ.get("ECHO_MARK"), "home": os.environ["FLWR_HOME"]})
    while len(nodes := list(grid.get_node_ids())) < config["nodes"]:
        time.sleep(0.1)
    ask = RecordDict({"ask": ConfigRecord({"word": config["word"]})})
    pending = set(grid.push_messages([Message(ask, dst_node_id=n, message_type="query.say") for n in nodes]))
    while pending:
        for reply in grid.pull_messages(list(pending)):
            pending.discard(reply.metadata.reply_to_message_id)
            show("ANSWER", dict(reply.content["answer"]))
        time.sleep(0.1)
    if config["fail"]:
        raise RuntimeError(config["fail"])
