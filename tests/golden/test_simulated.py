"""``aoi simulate --trace`` selects the clients that it selected in the last release."""

import hashlib
import json
from pathlib import Path

import pytest

GOLDEN = Path(__file__).with_name("simulated.json")
SHAPE = "--clients 30 --per-round 7 --rounds 60 --seed 5 --trace --json"
COMMANDS = (
    "markov-optimal",
    "markov-optimal --start zero --max-age 3",
    "markov-optimal --rates size --sizes zipf:1.2",
    "markov-optimal --compensate availability --there 0.6",
    "markov-optimal --compensate availability --there 0.6 --rates size --sizes zipf:1.2 --weights unbiased",
    "markov-optimal --there 0.6",
    "markov-optimal --clock generated --deadline 20",
    "markov-increasing --exponent 2",
    "systematic",
    "systematic --jitter 0.6",
    "systematic --phases random --rates size --sizes zipf:1.2",
    "systematic --there 0.6",
    "systematic --compensate availability --there 0.6",
    "systematic --compensate availability --clock generated --deadline 20",
    "random --weights unbiased",
    "random --clock generated --deadline 20 --over-selection 1.3",
    "proportional --sizes zipf:1.2",
    "oldest-age",
    "pow-d --candidates 12 --sizes zipf:1.2",
    "rpow-d",
    "oort",
    "fedcs --clock generated --deadline 20",
    "refl --clock generated --deadline 20",
    "f3ast --sizes zipf:1.2",
    "wics --budget 20",
    "wics --budget 20 --total-budget 500",
    "abs --budget 20",
    "maxpack --budget 20",
    "random-budget --budget 20",
)


def simulated(aoi, command):
    """Return a digest of the clients that a simulation selects."""
    shape = SHAPE.replace("--per-round 7 ", "") if "--budget" in command else SHAPE
    status, out, errors = aoi("simulate", "--policy", *command.split(), *shape.split())
    assert status == 0, errors
    return hashlib.sha256(json.dumps(json.loads(out)["selections"]).encode()).hexdigest()[:16]


@pytest.mark.parametrize("command", COMMANDS)
def test_simulation_is_the_golden_one(command, aoi):
    assert simulated(aoi, command) == json.loads(GOLDEN.read_text())[command]
