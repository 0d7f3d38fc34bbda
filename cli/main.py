"""The ``aoi`` command and its subcommands.

Each command imports its rooms inside its function. So ``aoi --help`` imports none of them, and no command loads
another's libraries. Help is plain text, because Rich's boxes take longer than everything else.
"""

import sys
from typing import Annotated

import typer
import typer.core

import aoi_fl
from aoi_fl.cli import (
    adopt,
    arena,
    clients,
    compare,
    device,
    init,
    policy,
    privacy,
    report,
    reproduce,
    run,
    runs,
    simulate,
)
from aoi_fl.cli.keys import keyed
from aoi_fl.cli.log import say
from aoi_fl.config.presets import PRESET
from aoi_fl.science.errors import AoiError, install, shortened

# Import names that the base installation lacks, with their extras.
EXTRAS = {"torch": "train"} | dict.fromkeys(("jinja2", "plotly", "prometheus_client", "scipy"), "report")


typer.core.HAS_RICH = False  # else Typer loads Rich even if it is not used
app = typer.Typer(
    name="aoi",
    help="Client selection in federated learning by Age of Information.",
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    suggest_commands=False,  # Click suggests commands already
)


def _version(asked: bool) -> None:
    if asked:
        print(aoi_fl.__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    pass


app.command("policy", cls=keyed(*policy.KEYS))(policy.policy)
app.command("privacy", cls=keyed(*privacy.KEYS, num_server_rounds=100))(privacy.privacy)
app.command("simulate", cls=keyed(*simulate.KEYS, num_server_rounds=1000))(simulate.simulate)
app.command("run", cls=keyed(*run.KEYS, more=True, preset=PRESET))(run.run)
app.command("resume")(run.resume)
app.command("report")(report.report)
app.command("export")(runs.export)
app.command("figure")(report.figure)
app.add_typer(runs.app, name="runs")
app.command("reproduce", cls=keyed("model", "num-server-rounds", "data-dir"))(reproduce.reproduce)
app.command("compare", cls=keyed(*compare.KEYS, more=True, preset=PRESET))(compare.compare)
app.command("arena", cls=keyed(*arena.KEYS, more=True, clock="generated"))(arena.arena)
app.command("clients")(clients.clients)
app.command("serve")(report.serve)
app.command("init")(init.init)
app.command("play")(adopt.play)
app.command("adopt")(adopt.adopt)
app.command("enroll")(device.enroll)
app.command("doctor")(device.doctor)
app.add_typer(device.app, name="device")


def main() -> None:
    """Run the command; a user's error prints one paragraph to stderr and ends with status 2."""
    try:
        app()
    except (AoiError, OSError) as error:
        say(shortened(str(error)))
        sys.exit(2)
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        say(f"this command needs {error.name}, which is not installed: {install(EXTRAS[error.name])}")
        sys.exit(2)


if __name__ == "__main__":
    main()
