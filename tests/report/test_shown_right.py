"""Names, commands and tables as a reader expects them: nothing lost, nothing to guess."""

import shlex

import yaml

from aoi_fl.cli.run import conclude
from aoi_fl.protocol.records import ClientRecord, Participation, RoundRecord
from tests.processes import ROOT
from tests.report.recorded import play, record


def test_a_report_takes_a_glob_of_names(told, refusal, tmp_path):
    for name in ("sw-1", "sw-2", "sw-3", "other", "odd-[1]"):
        play(tmp_path / "runs" / name, rounds=1)
    shown = {
        names: [row["run"] for row in told(f"report {names}")["runs"]]
        for names in ("sw-*", "runs/sw-[12] sw-3", "odd-[1]")  # a name comes before a pattern
    }
    assert [*shown.values()] == [["sw-1", "sw-2", "sw-3"]] * 2 + [["odd-[1]"]]
    for name in ("nothing-*", "x" * 300):  # longer than the system takes
        assert name[:9] in refusal(f"report {name}")


def test_a_printed_command_can_be_pasted(tmp_path, capsys):
    folder = tmp_path / "my runs/it's one"
    play(folder, rounds=1)
    conclude(folder, as_json=False)
    printed = capsys.readouterr().out
    (line,) = [line for line in printed.splitlines() if line.startswith("page:")]
    assert shlex.split(line)[1:] == ["aoi", "report", str(folder)]


def test_a_table_in_a_pipe_is_as_wide_as_it_needs(aoi, tmp_path, monkeypatch):
    long = "a reason that is much too long for eighty columns, " * 3
    failed = RoundRecord(1, 1.0, 1.0, participations=[Participation(0, "a", "failed", reason=long)])
    record(tmp_path / "runs/one", [failed], [ClientRecord(0, "a-client-with-a-long-name", 1, 100)])
    monkeypatch.delenv("COLUMNS", raising=False)
    status, out, _ = aoi("clients", "one")
    lines = out.splitlines()
    assert status == 0 and any("a-client-with-a-long-name" in line and long.strip() in line for line in lines)


def test_a_cluster_does_not_move_in_lock_step():
    """With n a multiple of k the optimal table is a fixed turn: 0 1, 2 3, 0 1, …"""
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    given = services["client"]["deploy"]["replicas"], services["submit"]["environment"]["AOI_CLIENTS_PER_ROUND"]
    n, k = (int(value.split(":-")[1].rstrip("}")) for value in given)
    assert (n, n % k) == (5, 1)
    kustomization = (ROOT / "deploy/kubernetes/kustomization.yaml").read_text()
    assert f"AOI_NUM_CLIENTS={n}" in kustomization and f"#AOI_NUM_CLIENTS={n}" in (ROOT / ".env.example").read_text()
