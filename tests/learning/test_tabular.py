"""CSV and Parquet files as data sets, against pandas; each fault is named by column and row."""

import hashlib
import tracemalloc
from pathlib import Path

import numpy as np
import pandas
import pytest

from aoi_fl.config.run import RunConfig
from aoi_fl.learning import data, partition
from aoi_fl.learning.cautions import cautions
from aoi_fl.learning.tabular import read_clients
from aoi_fl.server.folder import LEDGER
from aoi_fl.server.ledger import read_run
from tests.ledgers import clients_of, parts_of
from tests.processes import python
from tests.refusals import refused

ROWS = 60


def frame(rows=ROWS):
    random = np.random.default_rng(1)
    return pandas.DataFrame(
        {
            "school": [f"s{i % 6}" for i in range(rows)],
            "income": random.normal(3e4, 8e3, rows).round(2),
            "colour": random.choice(["red", "green", "blue"], rows),
            "passed": random.choice(["no", "yes"], rows),
        }
    )


def saved(path, table, **how):
    if isinstance(table, str):
        path.write_text(table)
    else:
        table.to_csv(path, index=False, **how)
    return f"csv:{path}"


def load(name, target="passed", client="", **how):
    return data.load(name, "unused", target=target, client=client, **how)


def test_columns_are_encoded_as_pandas_does_and_clients_keep_their_rows(tmp_path):
    table = frame()
    got = load(saved(tmp_path / "a.csv", table), client="school")
    parts = (got.train_x, got.test_x), (got.train_y, got.test_y), (got.owners, got.test_owners)
    x, y, clients = map(np.concatenate, parts)
    income, order, table = got.train_x[:, 0], np.argsort(x[:, 0]), table.sort_values("income")
    assert income.mean() == pytest.approx(0, abs=1e-6) and income.std() == pytest.approx(1, abs=1e-6)
    assert np.corrcoef(x[order, 0], table["income"])[0, 1] == pytest.approx(1)
    words = pandas.get_dummies(table["colour"]).assign(y=table["passed"] == "yes", c=table["school"].str[1].astype(int))
    np.testing.assert_array_equal(np.column_stack([x[:, 1:], y, clients])[order], words)
    assert got.classes == 2 and got.clients == tuple(f"s{i}" for i in range(6))
    assert [len(part) for part in partition.natural(got.owners, got.clients, 6)] == [ROWS // 6 * 4 // 5] * 6
    with refused("num-clients", 5):
        partition.natural(got.owners, got.clients, 5)


def digest(name):
    got = load(name, client="school")
    return hashlib.sha256(got.train_x.tobytes() + got.test_y.tobytes() + got.owners.tobytes()).hexdigest()


def test_another_process_reads_the_same_arrays(tmp_path):
    name = saved(tmp_path / "a.csv", frame())
    code = f"from tests.learning.test_tabular import digest; print(digest({name!r}))"
    assert python("-c", code, PYTHONHASHSEED="7").stdout.strip() == digest(name)


@pytest.mark.parametrize(
    "how",
    [
        *({"sep": sign} for sign in ";|\t"),
        *({"encoding": name} for name in ("utf-8-sig", "cp1252")),
        {"compression": "gzip"},
        {"as": "parquet"},
        {"as": "parquet of bytes"},
    ],
    ids=str,
)
def test_other_forms_of_a_file_give_the_same_arrays(how, tmp_path):
    table = frame().assign(size=["größer" if i % 2 else "kleiner" for i in range(ROWS)])
    plain = load(saved(tmp_path / "a.csv", table), client="school")
    if "as" in how:
        name = f"parquet:{tmp_path}/b"
        (table if how["as"] == "parquet" else table.map(lambda v: str(v).encode())).to_parquet(tmp_path / "b")
    else:
        name = saved(tmp_path / "b", table, **how)
    got = load(name, client="school")
    np.testing.assert_array_equal(got.train_x, plain.train_x)
    np.testing.assert_array_equal(got.owners, plain.owners)


@pytest.mark.parametrize(
    ("values", "classes"), [([3, 5, 9], 3), (["b", "a"], 2), ([1.5, 2.5], 0), (range(101), 0), ([1.0, 2.0], 0)]
)
def test_the_targets_kind_follows_from_its_cells(values, classes, tmp_path):
    rows = 2 * len(values) * 5
    target = [list(values)[i % len(values)] for i in range(rows)]
    name = saved(tmp_path / "a.csv", pandas.DataFrame({"x": np.arange(rows) / 7, "y": target}))
    got = load(name, "y")
    assert got.classes == classes
    if classes:
        assert set(got.train_y) == set(range(classes))
    else:
        assert got.train_y.mean() == pytest.approx(0, abs=1e-6) and got.train_y.std() == pytest.approx(1, abs=1e-5)
    assert any("decimal point" in note for note in cautions(got)) == (list(values) == [1.0, 2.0])


GOOD = "c,x,y\na,1.5,no\na,2,yes\nb,3,no\nb,4,yes\n"


def numbered(row, rows):
    """Return a table whose rows have their numbers, from 0, in the place of {}."""
    return "".join(row.format(i, i % 2) + "\n" for i in range(rows))


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        (GOOD.replace("b,", "a,"), "column c", "a"),
        (GOOD.replace("b,3", ",3"), "row 4, column c", ""),
        (GOOD.replace("3,no", "3,"), "row 4, column y", ""),
        (GOOD.replace("b,4", "b,5 kg"), "row 5, column x", "5 kg"),
        (GOOD.replace("yes", "no"), "column y", "no"),
        (GOOD.replace("b,4,yes", "b,4"), "row 5 of", "2 cells"),
        (GOOD.replace("b,4", 'b,"4"4'), "dataset", "a.csv"),
        (GOOD.replace("c,x", "x,x"), "a column of", "x"),
        (GOOD.replace("3", "3\0"), "dataset", "a.csv"),
        (GOOD.replace(",", " "), "columns of", "c x y"),
        ("c,x,y\n", "the number of rows of", 0),
        ("", "dataset", "a.csv"),
        ("x,y\n" + numbered("w{},{}", 300), "column x", "300 different words"),
        ("x,y\n" + numbered("{0},w{0}", 9), "column y", "9 different values in 9 rows"),
        ("c,x,y\n" + numbered("{0},{0},{1}", 9), "column c", "9 clients in 9 rows"),
        ("x,y\n0,0\n" + numbered("{}%,{}", 9), "row 3, column x", "0%"),
    ],
)
def test_a_fault_is_named_by_column_and_row(text, key, value, tmp_path):
    with refused(key, value) as error:
        load(saved(tmp_path / "a.csv", text), "y", "c" * text.startswith("c,"))
    assert "a.csv" in str(error.value) and error.value.remedy


@pytest.mark.parametrize(
    ("target", "client", "key"), [("z", "c", "target"), ("y", "school", "client-column"), ("y", "y", "client-column")]
)
def test_a_column_that_a_key_names_is_there_and_no_other(target, client, key, tmp_path):
    with refused(key, {"target": target, "client-column": client}[key]):
        load(saved(tmp_path / "a.csv", GOOD), target, client)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_missing_damaged_or_empty_file_is_named(kind, tmp_path):
    (tmp_path / "bad.gz").write_bytes(b"\x1f\x8b\xff\xfe\x00")
    for name in ("no.csv", "bad.gz"):
        with refused("dataset", name):
            load(f"{kind}:{tmp_path}/{name}")
    frame(0).to_parquet(tmp_path / "a.parquet")
    with refused("the number of rows of", 0):
        load(f"parquet:{tmp_path}/a.parquet")


def test_a_lone_row_of_a_client_is_for_training(tmp_path):
    text = "c,x,y\n" + numbered("a{1},{0},{1}", 22) + "z,5,1\n"
    got = load(saved(tmp_path / "a.csv", text), "y", "c")
    assert np.bincount(got.owners).tolist() == [9, 9, 1] and len(got.test_y) == 4


def test_an_npz_file_may_name_clients(tmp_path):
    x = np.random.default_rng(0).normal(size=(12, 3))
    arrays = {"train_x": x, "train_y": np.arange(12) % 2, "test_x": x[:4], "test_y": np.arange(4) % 2}
    np.savez(
        tmp_path / "a.npz",
        **arrays,
        client=np.array(["b", "a", "c"] * 4),
        few=np.zeros(5, int),
        real=np.arange(12.0),
        lines=np.array(["a", "a\n"] * 6),
    )
    got = load(f"npz:{tmp_path}/a.npz", "", "client")
    parts = partition.natural(got.owners, got.clients, 3)
    assert [part.tolist() for part in parts] == [[1, 4, 7, 10], [0, 3, 6, 9], [2, 5, 8, 11]]
    for name in ("few", "real", "lines", "train_x", "nothing"):
        with refused("arrays" if name == "nothing" else name):
            load(f"npz:{tmp_path}/a.npz", "", name)


FEDERATED = {"dataset": "csv:x.csv", "target": "y", "client-column": "c"}


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"dataset": "csv:x.csv"}, "target"),
        ({"target": "y"}, "target"),
        ({"dataset": "npz:x.npz", "target": "y"}, "target"),
        ({"client-column": "c"}, "client-column"),
        (FEDERATED | {"partition": "dirichlet"}, "partition"),
        (FEDERATED | {"sizes": "zipf:1"}, "sizes"),
        (FEDERATED | {"policy": "wics"}, "client-column"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(keys, key):
    with refused(key):
        RunConfig.parse(keys)


def test_a_client_has_one_printable_name_of_one_line_or_is_refused_by_row(tmp_path):
    table = frame()
    groups = pandas.factorize(table["school"])[0]

    def names_of(*names):
        saved(tmp_path / "a.csv", table.assign(school=[names[place] for place in groups]))
        return [*read_clients("csv", tmp_path / "a.csv", "school")]

    given = names_of("a\nb", "c\u200bd", "client-0", "e \t f", "client-9", "g")
    assert given == ["a b", "cd", "client-0", "client-9", "e f", "g"]
    assert names_of("b", "-nan", "a", "2", "inf", "10") == ["2", "10", "-nan", "a", "b", "inf"]
    for bad in ("x" * 101, "\u200b", "NaN"):
        with refused("row 4, column school"):
            names_of("a", "b", bad, "c", "d", "e")


@pytest.mark.parametrize("sizes", [(1.0, 1e300), (1e-320, 5e-324)])
@pytest.mark.parametrize("target", ["passed", "income"])
def test_numbers_without_a_deviation_are_refused(sizes, target, tmp_path):
    table = frame().assign(income=[sizes[0] * (i % 7) for i in range(ROWS)])
    table.loc[11, "income"] = sizes[1]
    with refused("income"):
        load(saved(tmp_path / "a.csv", table), target)


def test_row_numbers_are_no_features(tmp_path):
    table = frame().drop(columns=["school", "colour"])
    shuffled, plain = tmp_path / "a.parquet", tmp_path / "b.parquet"
    table.sample(frac=1, random_state=0).to_parquet(shuffled)
    table.reset_index(drop=True).to_parquet(plain)
    assert load(f"parquet:{shuffled}").train_x.shape == load(f"parquet:{plain}").train_x.shape
    frame().set_index("income").to_parquet(shuffled)
    assert any("index income" in note for note in load(f"parquet:{shuffled}").notes)
    numbers, words = range(ROWS), [f"r{i % 9}" for i in range(ROWS)]
    for more in ({"": numbers}, {"Unnamed: 0.1": numbers, "Unnamed: 0": numbers}, {"__index_level_0__": numbers}):
        got = load(saved(tmp_path / "c.csv", pandas.concat([pandas.DataFrame(more), table], axis=1)))
        assert got.train_x.shape[1] == 1 and len(got.notes) == len(more)
    for other in (table.set_axis(words).reset_index(names=""), table.assign(**{"": ""})):
        got = load(saved(tmp_path / "c.csv", other))
        assert got.train_x.shape[1] == len(got.notes) == 1
    got = load(saved(tmp_path / "c.csv", table.assign(income=np.arange(ROWS, dtype=float))))
    assert any("income" in note for note in got.notes)


@pytest.mark.parametrize("form", ["NA", "{}0,5"])
def test_the_target_and_the_clients_cannot_be_left_out(form, tmp_path):
    path = tmp_path / "a.csv"
    table = frame().assign(passed=[form.format(i % 9 + 1) for i in range(ROWS)])
    if form == "NA":
        table.loc[9:, "passed"] = "yes"
    with refused("row 2, column passed") as caught:
        load(saved(path, table))
    assert "drop" not in caught.value.remedy and "median" not in caught.value.remedy
    for drop in ("passed", "school"):
        with refused("drop", drop):
            load(saved(path, frame()), client="school", drop=drop)


@pytest.mark.parametrize("mark", ["", "n/a", "?"])
def test_a_missing_value_is_refused_or_the_median(mark, tmp_path):
    table = frame().astype({"income": object})
    table.loc[3, "income"] = mark
    name = saved(tmp_path / "a.csv", table)
    with refused("income"):
        load(name)
    filled = load(name, missing="median")
    assert len(filled.train_y) + len(filled.test_y) == ROWS and np.isfinite(filled.train_x).all()


def column(form, different=40, third=None):
    """Return cells of a form with different numbers, of which each third may have another form."""
    return [(third if third and not i % 3 else form).replace("{}", str(10 + i % different)) for i in range(ROWS)]


# Columns of numbers, dates and times that look like words, and the row that is named.
MISREAD = ["{}1,5", "{}.5kg", "₹{}", "{} ± 2", "{}/60", "{}:05:03.5", "{} Mai 2024", "2024-W{}"]
MISREAD += ["20{} Q1", "0x{}", "{}-{}", "[{}.5]", "{}MAR2024", "19{}0131", "20{}12"]
REFUSED = [(column(form), 2) for form in MISREAD]
REFUSED += [(column(form, third="{}"), 3) for form in ("∞", "not measured")] + [(column("{}.500", third="250"), 3)]
REFUSED.append((column("[{}]", 3), 2))


@pytest.mark.parametrize(("cells", "row"), REFUSED, ids=[cells[1] for cells, _ in REFUSED])
def test_a_column_that_would_be_misread_is_refused(cells, row, tmp_path):
    name = saved(tmp_path / "a.csv", frame().assign(colour=cells))
    with refused(f"row {row}, column colour", cells[row - 2]):
        load(name)
    assert load(name, drop="colour,school").train_x.shape[1] == 1


WORDS = [column(form, 12) for form in ("s{}", "Ward {}", "room-{}", "grade {} b", "only")]
SMALL = [f"{i % 4}.{125 + i}" if i % 3 else str(i) for i in range(ROWS)]  # with three decimals


@pytest.mark.parametrize(("cells", "features"), [*((cells, len({*cells})) for cells in WORDS), (SMALL, 1)])
def test_columns_of_words_and_of_small_numbers_are_read(cells, features, tmp_path):
    assert load(saved(tmp_path / "a.csv", frame().assign(colour=cells))).train_x.shape[1] == 7 + features


def test_a_raw_file_from_faults_to_a_run_of_named_clients(aoi, refusal, tmp_path):
    """German dates, decimal commas, empty cells and cp1252: all faults in one answer; with their remedies a run."""
    rates = {"St. Mary’s #07": 0.5, "Zürich, West": 0.6, "Müller & Söhne": 0.9}
    random, rows, clinics = np.random.default_rng(1), np.arange(90), [*rates]
    height = random.normal(1.7, 0.1, len(rows))
    raw = {
        "Datum": [f"{1 + i % 28:02d}.03.2024" if i % 9 else "" for i in rows],
        "Klinik": [clinics[i % 3] for i in rows],
        "größe": [f"{h:.2f}" if i % 17 != 3 else "" for i, h in enumerate(height)],
        "gewicht": [f"{60 + i},5" if i % 7 else "NA" for i in rows],
        "krank": np.where(height > 1.7, "ja", "nein"),
    }
    saved(Path("raw.csv"), pandas.DataFrame(raw), sep=";", encoding="cp1252")
    given = pandas.DataFrame({"name": rates.keys(), "rate": rates.values()})
    given.to_csv("rates.csv", index=False)
    line = (
        "run --policy markov-optimal --per-round 2 --rounds 3 --model lr --dataset csv:raw.csv -c target=krank "
        "-c client-column=Klinik -c rates=given -c clients-file=rates.csv -c run-name=r"
    )
    message = refusal(line)
    places = [f"row {row}, column {name}" for row, name in ((3, "Datum"), (2, "Datum"), (5, "größe"), (3, "gewicht"))]
    assert all(place in message for place in places) and not Path("runs").exists()
    line += " -c drop=Datum,gewicht -c missing=median"
    status, _, err = aoi(line)
    assert status == 0 and "90 rows" in err and err.index("cp1252") < err.index("\nround 1/"), err
    folder = tmp_path / "runs" / "r"
    names, about = [row["name"] for row in clients_of(folder)], read_run(folder / LEDGER)
    assert {*names} == {*clinics} == {*about["test_by_client"]}
    assert about["policy"]["rates"] == [rates[name] for name in names]
    assert all(part["name"] == names[part["client"]] and part["name"] in err for part in parts_of(folder))
    given[["rate"]].to_csv("rates.csv", index=False)
    assert "name" in refusal(line.replace("run-name=r", "run-name=s"))


@pytest.mark.parametrize(
    "codes", [[2**53 + i for i in range(5)], ["00123", "123", "7", "-7", "0"], ["A", "a", "b", "ﬀ", "ff"]]
)
def test_words_and_codes_are_compared_as_written(codes, tmp_path):
    codes = [str(code) for code in codes] * (ROWS // 5)
    table = frame().assign(passed=codes, colour=codes, school=codes)
    table.to_parquet(tmp_path / "a.parquet")
    for name in (saved(tmp_path / "a.csv", table), f"parquet:{tmp_path / 'a.parquet'}"):
        got = load(name, client="school")
        assert got.classes == len(got.clients) == 5 and got.train_x.shape[1] == 1 + 5
        assert len([note for note in got.notes if repr(codes[1]) in note]) == 3 * (codes[0][0] != "9")


def test_a_quoted_title_of_two_lines_is_one_name(tmp_path):
    got = load(saved(tmp_path / "a.csv", 'c;"x,\n,,(cm)";y\n' + "a;1;no\nb;2;yes\n" * 5), "y", "c")
    assert "x, ,,(cm)" in got.understood


def test_a_cell_of_many_characters_takes_its_own_memory(tmp_path):
    table = pandas.concat([frame()] * 50)
    table.iloc[3, table.columns.get_loc("colour")] = "x" * 200_000  # more than the csv module takes by default
    name = saved(tmp_path / "a.csv", table)
    tracemalloc.start()
    load(name)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6  # one array of fixed width would take 2.4 GB
