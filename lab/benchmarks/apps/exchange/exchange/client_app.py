"""Clients that hand the model back as it came."""

from aoi_fl.lab.benchmarks.echo import client_app as app

__all__ = ["app"]
