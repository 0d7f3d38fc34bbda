"""Objects as a node uploads them, and tests that need what only some versions of Flower have."""

import grpc
import pytest
from flwr.supercore.constant import HEAD_BODY_DIVIDER, HEAD_VALUE_DIVIDER

from aoi_fl.flower.versions import Seam


class CallFailed(grpc.RpcError, grpc.Call):  # type: ignore[misc]
    """What gRPC raises where a call fails; the rest of a call nobody asks for."""

    def __init__(self, status: str = "INTERNAL", details: str = "") -> None:
        self.code, self.details = (lambda: grpc.StatusCode[status]), (lambda: details)


def needs(seam: Seam) -> pytest.MarkDecorator:
    """Return the mark of a test that is skipped where this Flower lacks a seam."""
    return pytest.mark.skipif(not seam.there, reason=seam.lost or seam.name)


def running(state):
    """Start a run in a SuperLink's state; return it, its task and the task's token."""
    run = state.create_run("a", "1", "", {}, "@none/default", None, "", "flwr-serverapp")
    task = state.get_run_info(run_ids=[run])[0].primary_task_id
    token = state.claim_task(task)
    assert token and state.activate_task(task)
    return run, task, token


def deflated(kind: str, children: list[str], body: bytes) -> bytes:
    """Return an object as a node uploads it."""
    return f"{kind}{HEAD_VALUE_DIVIDER}{','.join(children)}{HEAD_VALUE_DIVIDER}{len(body)}".encode() + (
        HEAD_BODY_DIVIDER + body
    )
