"""Ten thousand clients that sleep between their rounds, over HTTP, with the newest Flower."""

from aoi_fl.lab.benchmarks import asleep


def run(data):
    """Run the rounds of :mod:`.asleep` over HTTP."""
    yield from asleep.run(data, http=True)
