"""A small fleet: virtual SuperNodes against a real SuperLink and a real ServerApp, everything killed that can be."""

import psutil
import pytest

from aoi_fl.lab.benchmarks.base import Skipped
from aoi_fl.lab.benchmarks.fleet import kills

pytestmark = pytest.mark.slow


@pytest.mark.alone
def test_rounds_go_on_whatever_is_killed_and_no_reply_is_lost():
    from aoi_fl.lab.benchmarks.fleet.play import play
    from aoi_fl.lab.benchmarks.fleet.scenario import Scenario

    found = play(Scenario(200, 20, rounds=2, killing=True, seconds=900.0, timeout=30.0))
    assert found.complete and found.lost == 0
    assert found.trained > 20 * found.scenario.all_rounds / 2
    assert set(found.kills) == {kill.__name__ for kill in kills.KILLS}
    assert found.kills["tenth"]["nodes"] == 20
    assert found.kills["flood"]["refused"] == kills.STRANGERS
    assert found.kills["herd"]["nodes"] > 150
    assert found.own_cpu < found.superlink_cpu  # it is not the harness that is measured
    assert 0 < found.superlink_peak < 1024 and 0 < found.serverapp_peak < 1024


@pytest.mark.alone
def test_sleepers_take_part_and_rarely_look():
    from aoi_fl.lab.benchmarks.fleet.play import play
    from aoi_fl.lab.benchmarks.fleet.scenario import Scenario

    found = play(Scenario(40, 4, rounds=6, round_seconds=10.0, behaviour="asleep", seconds=300.0))
    assert found.complete and found.lost == 0
    assert found.trained >= 0.8 * 4 * 6  # who oversleeps on a busy machine makes up for it later
    assert found.between < 40 / 3  # what they would ask if they looked every three seconds; on a quiet machine far less


@pytest.mark.long
def test_a_run_that_fails_is_told_at_once_and_leaves_no_process():
    from aoi_fl.lab.benchmarks.fleet.play import play
    from aoi_fl.lab.benchmarks.fleet.scenario import Scenario

    with pytest.raises(Skipped, match="the run has failed: "):
        play(Scenario(2, 3, rounds=1))  # more than there are: the ServerApp refuses it
    assert not [child for child in psutil.Process().children(recursive=True) if "flower" in " ".join(child.cmdline())]
