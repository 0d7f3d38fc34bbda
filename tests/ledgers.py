"""What tests read and write in the ledgers of runs."""

from contextlib import closing

from aoi_fl.protocol.records import PHASES
from aoi_fl.server.folder import LEDGER, MODEL
from aoi_fl.server.ledger import Ledger, read, read_run


def about_of(folder):
    return read_run(folder / LEDGER)


def rounds_of(folder):
    return read(folder / LEDGER, "rounds")


def parts_of(folder):
    """Return the participations of a run."""
    return read(folder / LEDGER, "participations")


def clients_of(folder):
    return read(folder / LEDGER, "clients")


def noted(folder, **values):
    """Write values into the ledger of a run as its server does, and return the folder."""
    with closing(Ledger(folder / LEDGER)) as ledger:
        ledger.note(**values)
    return folder


def left_behind(folder):
    """Return all that a run left, except its times: ledger, model, and what the clients keep."""
    timeless = dict.fromkeys(["started", "seconds", *(f"{phase}_seconds" for phase in PHASES)])
    found = {table: [row | timeless for row in read(folder / LEDGER, table)] for table in ("rounds", "participations")}
    states = {path.name: path.read_bytes() for path in (folder / "clients").rglob("*") if path.is_file()}
    return found | {"clients": clients_of(folder), "model": (folder / MODEL).read_bytes(), "states": states}
