"""The node's half: says the word back, and where and in what environment it stands."""

import os

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.query("say")
def say(message: Message, context: Context) -> Message:
    """Answer with the word, this process's folder and one variable of its environment."""
    record = ConfigRecord(
        {
            "word": message.content["ask"]["word"],
            "partition": int(context.node_config["partition-id"]),
            "folder": os.getcwd(),
            "mark": os.environ.get("ECHO_MARK", ""),
        }
    )
    return Message(RecordDict({"answer": record}), reply_to=message)
