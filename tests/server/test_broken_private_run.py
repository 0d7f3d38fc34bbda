"""A private run that breaks off at any of its writes is the unbroken run, or says what differs."""

import random

import pytest

from tests.server.broken import KINDS, Unbroken, check


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    return Unbroken(tmp_path_factory.mktemp("unbroken"))


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize(("kind", "owned"), KINDS)
def test_a_broken_private_run_is_the_unbroken_one(kind, owned, fails, unbroken, tmp_path):
    whole, writes = unbroken(kind, owned, fails)
    for at in random.Random(f"{kind} {owned} {fails}").sample(range(1, writes + 1), 2):
        check(tmp_path / str(at), whole, kind, owned, at=at, fails=fails)
