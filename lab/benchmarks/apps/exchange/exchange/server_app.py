"""A ServerApp that measures, and writes down, what its configuration names."""

import json
from pathlib import Path
from pkgutil import resolve_name

from flwr.serverapp import ServerApp

app = ServerApp()


@app.main()
def main(grid, context):
    """Measure on whatever engine this app was submitted to."""
    play = resolve_name(f"aoi_fl.lab.benchmarks.{context.run_config['what']}")
    found = play(grid, context.run_config)
    if found is not None:  # the fleet writes notes of its own
        Path(context.run_config["out"]).write_text(json.dumps(found, default=vars))
