"""What Flower's grid over gRPC does when a SuperLink breaks calls off."""

from types import SimpleNamespace

import pytest

from aoi_fl.flower.grids import be_patient, once
from aoi_fl.flower.versions import OVER_GRPC
from tests.flower.objects import CallFailed


@pytest.fixture
def call():
    """Return a function that has a grid make a call that fails so often, and returns how often it was tried."""
    if not OVER_GRPC:
        pytest.skip("this Flower's grid speaks HTTP")
    from flwr.superlink.grid.grpc_grid import GrpcGrid

    grid = GrpcGrid("127.0.0.1:1", insecure=True, token="t")
    be_patient(grid)
    grid._retry_invoker.wait_function = lambda seconds: None

    def make(failures, status="INTERNAL"):
        tried = []

        def target():
            tried.append(1)
            if len(tried) <= failures:
                raise CallFailed(status)

        try:
            grid._retry_invoker.invoke(target)
        except CallFailed:
            return -len(tried)
        return len(tried)

    return make


def test_interrupted_calls_are_retried_for_a_while(call):
    assert call(0) == 1
    with once():
        assert call(1) == -1
    assert [call(12), call(12)] == [13, 13]  # a success in between: they are not in a row
    assert call(1000) == -20


def test_what_it_refuses_is_not(call):
    assert call(5, "INVALID_ARGUMENT") == -1
    assert call(5, "UNAVAILABLE") == 6  # it is away: as Flower has it
    assert call(5, "RESOURCE_EXHAUSTED") == 6  # it is busy


def test_a_grid_over_http_keeps_its_own_way():
    """Its errors have no code of gRPC's to go by."""
    kind = type("HttpGrid", (SimpleNamespace,), {"__module__": "flwr.superlink.grid.http_grid"})
    own = SimpleNamespace(should_giveup="its own", on_success=None)
    be_patient(kind(_retry_invoker=own))
    assert own.should_giveup == "its own"
