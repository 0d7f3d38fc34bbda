"""Run Flower's SuperExec with our executor and pauses, and show the ServerApp's output."""

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from aoi_fl.flower.seams import OUTPUT
from aoi_fl.flower.versions import OVER_GRPC

# The code that answers one message, with ``keywords`` from :func:`keywords`; and the module that it imports.
MODULE = "flwr.supernode.runtime.run_clientapp"
ANSWER = f"from {MODULE} import run_clientapp\nrun_clientapp(**keywords)\n"


def keywords(spec: Any) -> dict[str, Any]:
    """Return the arguments of :data:`ANSWER` from Flower's ``ExecutionSpec`` of a message."""
    certificates = spec.root_certificates_path
    return {
        "runtime_api_address": spec.runtime_api_address,
        "token": spec.token,
        "insecure": spec.insecure,
        "certificates": Path(certificates).read_bytes() if certificates else None,
        "parent_pid": spec.parent_pid,
        "runtime_dependency_install": spec.runtime_dependency_install,
    }


@OUTPUT.needed
def show_output() -> None:
    """Let a SuperExec in this process show the ServerApp's output, not only log it."""
    from flwr.supercore.superexec.plugin import ServerAppExecPlugin

    ServerAppExecPlugin.suppress_output = False


@OUTPUT.needed
def stamp_lines() -> None:
    """Let Flower's programs in this process log with timestamps and without colours."""
    from flwr.common.logger import update_console_handler

    update_console_handler(timestamps=True, colored=False)


def launched(problem: str = "") -> Any:
    """Return Flower's ``LaunchResult``: accepted, or failed with a reason."""
    from flwr.supercore.superexec.executor.types import LaunchResult

    return LaunchResult.failed(problem) if problem else LaunchResult.accepted()


def run(executor: object, sleep: Callable[[float], None], given: Namespace) -> None:
    """Run the SuperExec until its SuperNode ends.

    Parameters
    ----------
    executor : has the methods of Flower's ``Executor``; ``launch(spec)`` returns the result of :func:`launched`
    sleep : pauses between two polls for work; Flower's argument is one second
    given : the options that the SuperNode passes to its SuperExec
    """
    from flwr.supercore.superexec import run_superexec

    module: Any = run_superexec
    module.get_executor = lambda *_, **__: executor
    module.time = SimpleNamespace(sleep=sleep)
    plugin: dict[str, Any] = {}
    if OVER_GRPC:
        from flwr.proto.runtime_pb2_grpc import RuntimeStub
        from flwr.supercore.superexec.plugin import ClientAppExecPlugin

        plugin = {"plugin_class": ClientAppExecPlugin, "stub_class": RuntimeStub}
    module.run_superexec(
        **plugin,
        runtime_api_address=given.address,
        insecure=given.insecure,
        root_certificates_path=given.root_certificates,
        parent_pid=given.parent_pid,
        runtime_dependency_install=given.allow_runtime_dependency_installation,
    )
