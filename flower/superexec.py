"""Flower's SuperExec: for clients, with our executor and waits; for the ServerApp, with its output shown."""

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from aoi_fl.flower.seams import OUTPUT

# What the process of one message runs, where ``keywords`` are what `answer_with` returned; and what it imports first.
MODULE = "flwr.supernode.runtime.run_clientapp"
ANSWER = f"from {MODULE} import run_clientapp\nrun_clientapp(**keywords)\n"


def keywords(spec: Any) -> dict[str, Any]:
    """Return what :data:`ANSWER` is given, from Flower's ``ExecutionSpec`` of a message."""
    certificates = spec.root_certificates_path
    return {
        "runtime_api_address": spec.runtime_api_address,
        "token": spec.token,
        "insecure": spec.insecure,
        "certificates": Path(certificates).read_bytes() if certificates else None,
        "parent_pid": spec.parent_pid,
        "runtime_dependency_install": spec.runtime_dependency_install,
    }


def show_output() -> None:
    """Have a SuperExec in this process show what the ServerApp prints, which Flower keeps for the run's log alone."""
    if not OUTPUT.there:
        OUTPUT.say_what_is_lost()
        return
    from flwr.supercore.superexec.plugin import ServerAppExecPlugin

    ServerAppExecPlugin.suppress_output = False


def stamp_lines() -> None:
    """Have Flower's programs in this process write the time into each line of their log, without colours."""
    if OUTPUT.there:
        from flwr.common.logger import update_console_handler

        update_console_handler(timestamps=True, colored=False)


def launched(problem: str = "") -> Any:
    """Return Flower's ``LaunchResult``: accepted, or failed for a reason."""
    from flwr.supercore.superexec.executor.types import LaunchResult

    return LaunchResult.failed(problem) if problem else LaunchResult.accepted()


def run(executor: object, sleep: Callable[[float], None], given: Namespace) -> None:
    """Run the SuperExec until its SuperNode ends.

    Parameters
    ----------
    executor : has ``wait_for_capacity()``, and ``launch(spec)`` that returns what :func:`launched` does
    sleep : sleeps between two looks for work; Flower asks for one second
    given : the options that a SuperNode gives its SuperExec
    """
    from flwr.proto.runtime_pb2_grpc import RuntimeStub
    from flwr.supercore.superexec import run_superexec
    from flwr.supercore.superexec.plugin import ClientAppExecPlugin

    module: Any = run_superexec
    module.get_executor = lambda *_, **__: executor
    module.time = SimpleNamespace(sleep=sleep)
    module.run_superexec(
        plugin_class=ClientAppExecPlugin,
        stub_class=RuntimeStub,
        runtime_api_address=given.appio_api_address,
        insecure=given.insecure,
        root_certificates_path=given.root_certificates,
        parent_pid=given.parent_pid,
        runtime_dependency_install=given.allow_runtime_dependency_installation,
    )
