"""A ServerApp that measures, and writes down, what its configuration names."""

import json
from pathlib import Path

from flwr.serverapp import ServerApp

from aoi_fl.lab.benchmarks import barrier, deployed, engines
from aoi_fl.lab.benchmarks.fleet import server as fleet

app = ServerApp()


@app.main()
def main(grid, context):
    """Measure on whatever engine this app was submitted to."""
    plays = {deployed.DEPLOYED: deployed.play, deployed.HELD: deployed.hold, fleet.FLEET: fleet.play}
    plays |= {barrier.BARRIER: barrier.play}
    found = plays.get(context.run_config["what"], engines.play)(grid, context.run_config)
    if found is not None:  # the fleet writes notes of its own
        Path(context.run_config["out"]).write_text(json.dumps(found, default=vars))
