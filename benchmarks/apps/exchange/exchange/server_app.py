"""A ServerApp that measures, and writes down, what its configuration names."""

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from benchmarks import deployed, engines

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Measure on whatever engine this app was submitted to."""
    play = deployed.play if context.run_config["what"] == deployed.DEPLOYED else engines.play
    play(grid, context.run_config)
