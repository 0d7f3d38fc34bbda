"""Our SuperLink's database: one connection, which calls take in turn."""

import threading

import pytest

from aoi_fl.flower.seams import DATABASE
from aoi_fl.flower.superlink import connect_once


@pytest.mark.skipif(not DATABASE.there, reason=DATABASE.lost)
def test_a_second_call_waits_until_the_first_one_has_done_with_the_database(tmp_path, monkeypatch):
    from flwr.supercore import sql_mixin
    from sqlalchemy.pool import StaticPool

    monkeypatch.setattr(sql_mixin, "create_engine", sql_mixin.create_engine)  # as it was, after this test
    connect_once()
    engine, served = sql_mixin.create_engine(f"sqlite:///{tmp_path / 'state.db'}"), threading.Event()

    def call():
        with engine.connect():
            served.set()

    with engine.connect():
        waiting = threading.Thread(target=call)
        waiting.start()
        assert not served.wait(0.5)
    assert served.wait(10)
    waiting.join()
    with sql_mixin.create_engine("sqlite://", poolclass=StaticPool).connect():  # one in memory is left as it is
        pass
