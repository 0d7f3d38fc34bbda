"""The benchmarks' command loses no number that was ever measured, and ends with 1 where one was missed or failed."""

import json
import sys
from types import ModuleType

import pytest

from aoi_fl.lab.benchmarks import __main__ as command
from aoi_fl.lab.benchmarks import table
from aoi_fl.lab.benchmarks.base import Row, Skipped, peak_memory
from tests.processes import python

PAGE = "".join(f"<!-- {m} -->\nold\n<!-- end of {m} -->\n" for m in ("table", "ladder", "machine"))


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """Return a function that runs the command on benchmarks, each given as its rows and perhaps an error."""
    page = tmp_path / "benchmarks.md"
    page.write_text(PAGE, "utf-8")
    for module in (command, table):
        monkeypatch.setattr(module, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(table, "PAGE", page)

    def play(arguments=(), **modules):
        for name, steps in modules.items():
            module = ModuleType(f"aoi_fl.lab.benchmarks.{name}")

            def measure(data, steps=steps):
                for step in steps:
                    if isinstance(step, Exception):
                        raise step
                    yield step

            module.run = measure
            if not any(isinstance(step, Exception) for step in steps):
                module.ladder = lambda name=name: f"ladder of {name}"
            monkeypatch.setitem(sys.modules, f"aoi_fl.lab.benchmarks.{name}", module)
        monkeypatch.setattr(command, "NAMES", tuple(modules))
        code = command.main(list(arguments))
        stored = {path.stem: json.loads(path.read_text("utf-8")) for path in (tmp_path / "results").iterdir()}
        return code, stored, page.read_text("utf-8")

    return play


def measured(stored):
    return {row["what"]: row["measured"] for row in stored["rows"]}


def row(what, value, limit=None):
    return Row(what, "r", limit, value)


@pytest.mark.parametrize("error", [Skipped("no MNIST"), RuntimeError("no luck")])
def test_whatever_ends_a_benchmark_early_costs_no_row(bench, error):
    code, stored, _ = bench(a=[row("x", 1.0), row("y", 2.0)], b=[row("z", 3.0)])
    assert code == 0 and measured(stored["a"]) == {"x": 1.0, "y": 2.0}
    code, stored, page = bench(a=[row("x", 7.0), error], b=[row("z", 4.0)])
    assert measured(stored["a"]) == {"x": 7.0, "y": 2.0}
    assert measured(stored["b"]) == {"z": 4.0}  # the next one ran all the same
    assert code == (0 if isinstance(error, Skipped) else 1)
    assert [("earlier" in r) for r in stored["a"]["rows"]] == [False, True]
    assert str(error) in page and "| 2 (measured 20" in page and "ladder of a" in page
    code, stored, page = bench(a=[error], b=[])
    assert measured(stored["a"]) == {"x": 7.0, "y": 2.0} and str(error) in page
    code, stored, page = bench(a=[row("x", 8.0)], b=[])
    assert measured(stored["a"]) == {"x": 8.0} and str(error) not in page  # what ran to its end stands alone


def test_an_import_that_fails_is_one_benchmarks_failure(bench, monkeypatch):
    bench(lost=[row("x", 1.0)])
    monkeypatch.setitem(sys.modules, "aoi_fl.lab.benchmarks.lost", None)
    monkeypatch.setattr(command, "NAMES", ("lost",))
    assert command.main([]) == 1


def test_a_missed_number_ends_the_command_with_one(bench):
    code, _, page = bench(a=[row("x", 3.0, limit=2)])
    assert code == 1 and "missed, 1.5 times the limit" in page


def test_what_takes_docker_runs_only_when_named(bench):
    steps = {"cluster": [row("bytes", 5.0)]}
    assert "cluster" not in command.NAMES and "cluster" in command.BY_NAME
    _, stored, _ = bench(a=[row("x", 1.0)])
    assert set(stored) == {"a"}
    _, stored, _ = bench(["cluster"], **steps)
    assert set(stored) == {"a", "cluster"}


def test_the_page_tells_the_machine_and_the_total(bench):
    _, stored, page = bench(a=[row("x", 1.0)])
    told = stored["a"]["machine"]
    assert {"processor", "cores", "memory-GiB", "kernel", "numpy-simd", "commit", "load", "load-before"} <= set(told)
    assert "times, 0 s." in page and f"| {told['cores']} cores " in page


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_peak_memory_is_that_of_the_process_itself():
    parent = bytearray(300 * 2**20)  # a child that took over its parent's peak would show it
    code = "from aoi_fl.lab.benchmarks.base import peak_memory as p; a = p(); b = bytearray(50 * 2**20); print(a, p())"
    before, after = map(float, python("-c", code).stdout.split())
    assert peak_memory() > 300 and len(parent)
    assert before < 200 and 45 < after - before < 55
