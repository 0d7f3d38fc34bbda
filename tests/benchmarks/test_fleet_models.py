"""The models of a fleet, the table of a play, and packed models over a real SuperLink."""

import numpy as np
import pytest

from aoi_fl.flower.seams import VIRTUAL
from aoi_fl.lab.benchmarks.fleet.models import MODELS, record

needs_fleet = pytest.mark.skipif(not VIRTUAL.there, reason=VIRTUAL.lost)


def test_a_resnet_has_torchvisions_arrays():
    torchvision = pytest.importorskip("torchvision", reason="torchvision is not installed")
    theirs = {name: list(value.shape) for name, value in torchvision.models.resnet18().state_dict().items()}
    assert MODELS["resnet18"] == theirs and len(theirs) == 122


def test_two_models_of_one_size_differ_in_their_arrays():
    narrow, halves = (record(name) for name in ("narrow", "halves"))
    assert (len(narrow), len(halves)) == (122, 2)
    sizes = [sum(array.numpy().size for array in model.values()) for model in (narrow, halves)]
    assert abs(np.log(sizes[0] / sizes[1])) < 0.02


@needs_fleet
def test_a_table_has_a_line_for_each_play():
    from aoi_fl.lab.benchmarks.fleet.__main__ import table
    from aoi_fl.lab.benchmarks.fleet.scenario import Played, Scenario

    found = Played(Scenario(9, 3, server="stock"), rounds=[1.0, 2.0], newcomer_cpu=12.34, client_calls=21.6)
    cells = [cell.strip() for cell in table([found]).splitlines()[2].split("|")[1:-1]]
    assert cells == ["stock", "handback", "auto", "9, k = 3", "12.3 ms", "0.0 ms", "22", "1.5 s"]


@needs_fleet
@pytest.mark.slow
@pytest.mark.long
def test_a_model_of_122_arrays_costs_a_client_few_calls():
    from aoi_fl.lab.benchmarks.fleet.play import play
    from aoi_fl.lab.benchmarks.fleet.scenario import Scenario

    found = play(Scenario(2, 2, "poll", rounds=3, model="narrow", seconds=300.0))
    assert found.complete and found.lost == 0 and found.trained == 2 * 3
    assert found.client_calls < 50  # two questions and an answer among them; unpacked about 740
