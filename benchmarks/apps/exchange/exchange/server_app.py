"""A ServerApp that measures, and writes down, what its configuration names."""

from benchmarks import deployed, engines
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Measure on whatever engine this app was submitted to."""
    play = deployed.play if context.run_config["what"] == deployed.DEPLOYED else engines.play
    play(grid, context.run_config)
