"""The clients that a budget is spent on: what is refused by name, the paper's instance, and the file."""

import math

import numpy as np
import pytest

from aoi_fl.protocol.clients import check_clients, read_clients_file, section5_instance
from aoi_fl.protocol.given_rates import read_rates
from tests.refusals import refused


@pytest.mark.parametrize(
    ("payments", "sensitivities", "names", "message"),
    [
        ([5, math.nan], [1, 1], "ab", "payment of client b"),
        ([5, None], [1, 1], "ab", "payment of client b"),
        ([5, 5], [0.0, 1], "ab", "sensitivity of client a"),
        ([60, 50], [1, 1], "ab", "budget"),
    ],
)
def test_clients_that_cannot_be_worked_with_are_named(payments, sensitivities, names, message):
    with refused(message):
        check_clients(payments, sensitivities, 40.0, names)


def test_clients_never_chosen_are_named_at_the_start():
    assert check_clients([60, 40], [1, 1], 40.0, ["x", "y"]) == ["client x can never be chosen: payment 60 > budget 40"]
    dear, names = [50.0 + i for i in range(1000)], [f"c{i}" for i in range(1001)]
    first, *_, fifth, rest = check_clients([*dear, 5], [1] * 1001, 40.0, names)  # a line each is too much for a log
    assert (first[:9], fifth[:9]) == ("client c0", "client c4") and rest.startswith("995 more clients can never be")
    for budget in (0.0, -1.0, math.nan, math.inf):
        with refused("budget"):
            check_clients([1], [1], budget, "a")


def test_a_payment_is_compared_as_a_choice_compares_it():
    nearly = 0.1 + 0.2  # above 0.3 in binary
    assert check_clients([nearly], [1], 0.3, "a") == check_clients([nearly], [1], 9.0, "a", total=0.3) == []
    with refused("budget", 0.3):
        check_clients([0.3 + 1e-14], [1], 0.3, "a")


def test_section5_instance_is_what_the_paper_describes():
    table = section5_instance(20_000, seed=1)
    assert np.array_equal(table.payments, table.sizes / 100)
    assert table.payments.min() >= 5 and table.payments.max() <= 15
    assert table.sensitivities.min() > 0 and table.sensitivities.max() <= 1
    assert not table.ages.any() and len(set(table.names)) == 20_000
    assert table.payments.mean() == pytest.approx(10, abs=0.1)
    assert table.sensitivities.mean() == pytest.approx(0.5, abs=0.01)


HEADER = "name,size,payment,sensitivity,age\n"


def test_clients_file_is_read(tmp_path):
    path = tmp_path / "clients.csv"
    path.write_text('payment, name,sensitivity,size,age\n5.5,ann,0.25,100,0\n\n7,"b, c",1,200,3\n', encoding="utf-8")
    table = read_clients_file(path)
    assert table.names == ("ann", "b, c") and table.sizes.tolist() == [100, 200]
    assert table.payments.tolist() == [5.5, 7.0] and table.sensitivities.tolist() == [0.25, 1.0]
    assert table.ages.tolist() == [0, 3]
    path.write_text("name,size,payment,sensitivity\nann,1e3,2,3\n")
    table = read_clients_file(path)
    assert (table.ages.tolist(), table.sizes.tolist()) == ([0], [1000])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER + "a,1,5,1,0\nb,1,five,1,0\n", "line 3, column payment"),
        (HEADER + "a,1,5,1,2.5\n", "line 2, column age"),
        (HEADER + ",1,5,1,0\n", "line 2, column name"),
        (HEADER + "a,1_0,5,1,0\n", "line 2, column size"),
        (HEADER + "a,1,１０,1,0\n", "line 2, column payment"),
        (HEADER + "a,1,5,1,0\xa0\n", "line 2, column age"),
        (HEADER + "a,99999999999999999999,5,1,0\n", "line 2, column size"),
        (HEADER + "a,1,5,1e-300,0\n", "line 2, column sensitivity"),
        (HEADER + "a,1,5,1,0\na,1,5,1,0\n", "line 3, column name"),
        (HEADER + "a,1,5,1\n", "line 2"),
        ("name,size,payment\na,1,5\n", "line 1: columns"),
        ("name,size,payment,sensitivity,price\n", "line 1: columns"),
        (HEADER, "clients-file"),
    ],
)
def test_clients_file_names_line_and_column(tmp_path, text, message):
    path = tmp_path / "clients.csv"
    path.write_text(text, encoding="utf-8")
    with refused(message):
        read_clients_file(path)


def test_clients_file_that_is_none(tmp_path):
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    for name in ("none.csv", "binary.csv"):
        with refused("clients-file"):
            read_clients_file(tmp_path / name)


def test_a_column_of_rates_is_for_those_who_have_one(tmp_path):
    path = tmp_path / "clients.csv"
    path.write_text("name,size,payment,sensitivity,rate\na,5,1,1,0.5\n")
    assert read_clients_file(path).names == ("a",) and read_rates(path, 1) == {"a": 0.5}
    path.write_text("rate\n0_1\n")
    with refused("line 2, column rate", "0_1"):
        read_rates(path, 1)
