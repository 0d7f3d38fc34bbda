"""The models of a fleet, the table of a play, and packed models over a real SuperLink."""

import pytest

from aoi_fl.lab.benchmarks.fleet.models import MODELS


@pytest.mark.slow
def test_a_resnet_has_torchvisions_arrays():
    torchvision = pytest.importorskip("torchvision", reason="torchvision is not installed")
    theirs = {name: list(value.shape) for name, value in torchvision.models.resnet18().state_dict().items()}
    assert MODELS["resnet18"] == theirs and len(theirs) == 122


@pytest.mark.slow
@pytest.mark.long
def test_a_model_of_122_arrays_costs_a_client_few_calls():
    from aoi_fl.lab.benchmarks.fleet.play import play
    from aoi_fl.lab.benchmarks.fleet.scenario import Scenario

    found = play(Scenario(2, 2, "poll", rounds=3, model="narrow", seconds=300.0))
    assert found.complete and found.lost == 0 and found.trained == 2 * 3
    assert found.client_calls < 50  # two questions and an answer among them; unpacked about 740
