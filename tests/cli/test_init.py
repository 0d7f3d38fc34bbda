"""``aoi init``: the app that it writes is played, with each policy, and what it cannot write is refused."""

import importlib

import pytest

from aoi_fl.cli import scaffold
from aoi_fl.config.run import RunConfig
from aoi_fl.lab.benchmarks.processes import simulate
from aoi_fl.server.strategy import make_strategy
from tests.ledgers import about_of, parts_of, rounds_of
from tests.processes import python
from tests.refusals import refused


def test_an_app_runs_at_once_and_its_tests_pass(aoi, tmp_path):
    status, out, err = aoi("init my-app")
    assert (status, err) == (0, "") and "cd my-app\n  python -m my_app\n  GRPC_ENABLE_FORK_SUPPORT=0 flwr" in out
    done = python("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path / "my-app")
    assert "2 passed" in done.stdout
    assert "policy `markov-optimal`: each client by its own coin" in (tmp_path / "my-app/README.md").read_text()


def test_the_new_folder_is_not_taken_for_a_module_in_its_way(tmp_path):
    done = python("-m", "aoi_fl.cli.start", "init", "plain", cwd=tmp_path)  # which looks for modules here too
    assert not done.stderr and done.stdout.startswith("Created plain.")


def test_an_app_is_written_as_one_writes_it_by_hand(tmp_path):
    for policy in scaffold.POLICIES:
        scaffold.write(f"app-{policy}", policy, tmp_path)
    for app in tmp_path.iterdir():
        for rules in (["check", "--select", "E,F,I,B,UP,RUF,SIM"], ["format", "--check"]):
            python("-m", "ruff", *rules, "--isolated", "--no-cache", "--line-length", "120", ".", cwd=app)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and "$" in path.read_text()]


@pytest.mark.parametrize("policies", [("systematic", "oort"), pytest.param(scaffold.POLICIES, marks=pytest.mark.slow)])
def test_every_policy_is_played_by_its_app(policies, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    for policy in policies:
        monkeypatch.syspath_prepend(scaffold.write(f"app-{policy}", policy, tmp_path))
        importlib.import_module(f"app_{policy.replace('-', '_')}.__main__").play(rounds=12, run_name=policy)
        assert "dropped" not in capfd.readouterr().err
        folder = tmp_path / "runs" / policy
        wanted = make_strategy(RunConfig.parse({"policy": policy, "num-clients": 10, "clients-per-round": 3}), "r")
        assert about_of(folder)["policy"]["kind"] == wanted.parameters()["kind"]
        rounds, parts = rounds_of(folder), parts_of(folder)
        assert len(rounds) == 12 and rounds[-1]["test_accuracy"] > 0.8
        assert len({part["client"] for part in parts}) > 3 and 12 <= len(parts) <= 12 * 6


@pytest.mark.slow
@pytest.mark.ray
def test_flowers_simulation_plays_the_app(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    app = scaffold.write("my-app", "systematic", tmp_path)
    ended, log = simulate(app, {"rounds": 4, "run-name": "ray"}, 4, 400)
    assert ended == "finished:completed", log
    assert len(rounds_of(tmp_path / "runs/ray")) == 4


@pytest.mark.parametrize("name", ["", "My-App", "a/b", "class", "x" * 51, "json", "numpy", "aoi-fl"])
def test_a_name_that_is_no_packages_or_a_modules_is_refused(name, tmp_path):
    with refused("NAME", name):
        scaffold.write(name, "random", tmp_path)
    assert not list(tmp_path.iterdir())


def test_what_is_there_stays_as_it_is(aoi, refusal, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes").write_text("all my work")
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    for name in ("mine", "file"):
        assert f"NAME is {name}, but must be a new or empty folder" in refusal(f"init {name}")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes"]
    assert aoi("init empty")[0] == 0


def test_a_policy_that_there_is_not_and_a_full_disk_are_named(refusal, tmp_path):
    assert "Did you mean 'markov-optimal'?" in refusal("init my-app --policy markov-optmal")
    with pytest.raises(scaffold.StorageError, match=r"the app cannot be written to .*Not a directory"):
        (tmp_path / "file").touch()
        scaffold.write("my-app", "random", tmp_path / "file")
