"""Several runs one after another on one grid, each with keys of its own that clients hear of in messages alone."""

import json

from flwr.serverapp import ServerApp

from aoi_fl.config.run import RunConfig
from aoi_fl.learning.client_app import app as client_app
from aoi_fl.server.app import play

__all__ = ["client_app", "server_app"]

server_app = ServerApp()


@server_app.main()
def main(grid, context):
    """Play the runs of ``cells``, a JSON object of their names and keys."""
    keys = dict(context.run_config)
    for name, more in json.loads(keys.pop("cells")).items():
        play(grid, RunConfig.parse(keys | more | {"run-name": name}))
