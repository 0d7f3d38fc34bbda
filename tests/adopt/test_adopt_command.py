"""``aoi play`` and ``aoi adopt`` on apps of the shape of Flower's own examples."""

import shutil
import sys
import time
from pathlib import Path

import pytest

from aoi_fl.report.runs import load
from tests.adopt.installation import ROOT

APPS = ["quickstart_numpy", "quickstart_sklearn", pytest.param("advanced_pytorch", marks=pytest.mark.slow)]


@pytest.fixture
def app(request, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield shutil.copytree(ROOT / "tests" / "apps" / request.param, tmp_path / request.param)
    forget(request.param)


def forget(package):
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]


def texts(folder):
    return {path: path.read_text().splitlines() for path in folder.rglob("*.py")}


@pytest.mark.parametrize("app", APPS, indirect=True)
def test_an_app_is_played_and_adopted(app, aoi, tmp_path):
    before, begun = texts(app), time.process_time()
    status, out, err = aoi("play", app.name, "--policy", "markov-optimal", "--per-round", "4", "-c", "rounds=2")
    assert status == 0 and time.process_time() - begun < 20, err
    page = tmp_path / out.splitlines()[-1]
    run = load(page.parent, "")
    assert [folder for folder in (tmp_path / "runs").iterdir()] == [page.parent]
    assert page.is_file() and run.policy["kind"].startswith("markov") and len(run.rounds) == 2
    assert {run.rounds[-1][name] for name in ("client_loss", "client_accuracy", "test_loss")} != {None}
    assert texts(app) == before
    status, out, err = aoi("adopt", app.name)
    assert status == 0 and texts(app) == before
    added = [line for line in out.splitlines() if line.startswith("+") and not line.startswith("+++")]
    assert 0 < len(added) <= 3
    assert aoi("adopt", app.name, "--write")[0] == 0 and texts(app) != before
    assert sum(line[1:] in lines for line in added for lines in texts(app).values()) == len(added)
    forget(app.name)
    status, out, err = aoi("play", app.name, "-c", "rounds=2")
    assert status == 0, err
    assert load(tmp_path / Path(out.splitlines()[-1]).parent, "").policy["kind"].startswith("markov")
    assert not [line for line in aoi("adopt", app.name)[1].splitlines() if line.startswith("+")]


FAULTS = {
    "raises": ("    strategy = FedAvg", "    1 / 0\n    strategy = FedAvg"),
    "would end as a success": ("    strategy = FedAvg", "    raise SystemExit(0)\n    strategy = FedAvg"),
    "ends when it is imported": ("app = ServerApp()", "raise SystemExit(0)"),
    "does not compile": ("app = ServerApp()", "app = = ServerApp()"),
    "has no app": ("app = ServerApp()", "app = 3"),
}


@pytest.mark.parametrize("app", ["quickstart_numpy"], indirect=True)
@pytest.mark.parametrize("fault", FAULTS)
def test_an_app_that_does_not_run_is_a_line_and_no_success(fault, app, aoi, tmp_path):
    server = app / "quickstart_numpy" / "server_app.py"
    server.write_text(server.read_text().replace(*FAULTS[fault]))
    status, _, err = aoi("play", app.name)
    assert status == 2 and err.startswith("aoi: APP") and "Traceback" not in err


@pytest.mark.parametrize("app", ["quickstart_numpy"], indirect=True)
@pytest.mark.parametrize("name", ['"Ünï_app"', '"_x"', '""', "5", f'"{"a" * 150}"'])
def test_a_run_has_a_name_whatever_the_apps_is(name, app, aoi, tmp_path):
    project = app / "pyproject.toml"
    project.write_text(project.read_text().replace('name = "quickstart-numpy"', f"name = {name}"))
    status, out, err = aoi("play", app.name, "-c", "rounds=1")
    assert status == 0 and (tmp_path / out.splitlines()[-1]).is_file(), err


@pytest.mark.parametrize("app", ["quickstart_numpy"], indirect=True)
@pytest.mark.parametrize("command", ["play", "adopt"])
def test_more_clients_a_round_than_there_are_is_refused(command, app, aoi):
    assert aoi(command, app.name, "--clients", "3", "--per-round", "4")[0] == 2


@pytest.mark.parametrize("app", ["quickstart_numpy"], indirect=True)
@pytest.mark.parametrize(
    ("given", "per_round"),
    [
        ("fraction_train=0.5", "5"),
        ("fraction_train=0.01, min_train_nodes=4", "4"),
        ("fraction_train=share", "2"),
        ("fraction_train=1.0", "3"),
        ("min_train_nodes=fewest, fraction_train=0.5", "3"),
        ("", "3"),
    ],
)
def test_the_clients_of_a_round_are_the_apps(given, per_round, app, aoi):
    server, project = app / "quickstart_numpy" / "server_app.py", app / "pyproject.toml"
    server.write_text(server.read_text().replace("fraction_train=0.5, ", f"{given}, " if given else ""))
    project.write_text(project.read_text().replace("rounds = 3", "rounds = 3\nfraction-train = 0.2"))
    status, out, _ = aoi("adopt", app.name)
    (line,) = (line for line in out.splitlines() if line.startswith("+") and ".optimal(" in line)
    assert status == 0 and f".optimal(10, {per_round}, " in line
    assert ("#" in line) == (per_round == "3")  # a remark that the number is not the app's


@pytest.mark.parametrize("app", ["quickstart_numpy"], indirect=True)
def test_what_is_no_app_is_refused(app, aoi, tmp_path):
    for words in (
        ("play", "nowhere"),
        ("adopt", "."),
        ("play", app.name, "-c", "round=2"),
        ("play", app.name, "-c", "rounds=many"),
        ("play", app.name, "--policy", "wics"),
    ):
        status, _, err = aoi(*words)
        assert status == 2 and "Traceback" not in err
    server = app / "quickstart_numpy" / "server_app.py"
    server.write_text(server.read_text().replace("strategy = FedAvg(", "strategy = dict(FedAvg)("))
    status, _, err = aoi("adopt", app.name)
    assert status == 2 and "optimal(10, 3, aggregation=strategy)" in err  # the line to add


@pytest.mark.parametrize("app", ["quickstart_numpy"], indirect=True)
def test_a_strategy_of_ones_own_made_over_several_lines_is_adopted(app, aoi):
    server = app / "quickstart_numpy" / "server_app.py"
    text = server.read_text()
    (app / "quickstart_numpy" / "own.py").write_text(
        "from flwr.serverapp.strategy import FedAvg\n\n\nclass Own(FedAvg):\n    pass\n"
    )
    text = text.replace("from flwr.serverapp.strategy import FedAvg", "from quickstart_numpy.own import Own")
    server.write_text(text.replace("FedAvg(fraction_train=0.5, ", "Own(\n        fraction_train=0.5,\n        "))
    added = [line for line in aoi("adopt", app.name, "--write")[1].splitlines() if line.startswith("+ ")]
    assert len(added) == 1 and ".optimal(" in added[0]
    status, _, err = aoi("play", app.name, "-c", "rounds=2")
    assert status == 0, err
    server.write_text(text.replace("FedAvg(fraction_train=0.5, ", "Own(0.5, "))
    (app / "quickstart_numpy" / "own.py").write_text(
        "from flwr.serverapp.strategy import FedAvg\nclass Own(FedAvg): pass\n"
    )
    client = app / "quickstart_numpy" / "client_app.py"
    client.write_text(client.read_text().replace("aoi_fl.client", "flwr.clientapp"))
    assert aoi("adopt", app.name)[0] == 2


DERIVED = {
    "a grandchild": (
        "class Base(FedAdam):\n    pass\n\n\nclass Own(Base):\n    pass\n",
        "strategy = Own(\n        fraction_train=0.5,\n    )",
    ),
    "made by a function": (
        "class Own(Adam):\n    pass\n\n\ndef make():\n    return Own(fraction_train=0.5)\n",
        "strategy = make()",
    ),
    "a grandchild of FedAvg": (
        "class MyFedAvg(FedAvg):\n    pass\n\n\nclass Own(MyFedAvg):\n    pass\n",
        "strategy = Own(fraction_train=0.5)",
    ),
}


@pytest.mark.parametrize("app", ["quickstart_numpy"], indirect=True)
@pytest.mark.parametrize("kind", DERIVED)
def test_a_strategy_derived_from_any_of_flowers_is_adopted(kind, app, aoi, tmp_path):
    """The adopted app plays under the policy, and its own class aggregates."""
    server = app / "quickstart_numpy" / "server_app.py"
    text, (classes, made) = server.read_text(), DERIVED[kind]
    imported = "from flwr.serverapp.strategy import FedAdam, FedAdam as Adam, FedAvg\n"
    text = text.replace("from flwr.serverapp.strategy import FedAvg\n", imported)
    text = text.replace("app = ServerApp()", f"{classes}\n\napp = ServerApp()")
    server.write_text(text.replace("strategy = FedAvg(fraction_train=0.5, min_available_nodes=6)", made))
    assert aoi("adopt", app.name, "--write")[0] == 0
    status, out, err = aoi("play", app.name, "-c", "rounds=2")
    assert status == 0, err
    assert load(tmp_path / Path(out.splitlines()[-1]).parent, "").policy["kind"].startswith("markov")
    own = sys.modules["quickstart_numpy.server_app"].Own
    assert ("MarkovParticipation" in {base.__name__ for base in own.__mro__}) == (kind == "a grandchild of FedAvg")


@pytest.mark.parametrize("app", ["quickstart_numpy"], indirect=True)
def test_a_loop_of_ones_own_under_another_strategy_is_refused(app, aoi):
    server = app / "quickstart_numpy" / "server_app.py"
    loop = "class Own(FedProx):\n    def start(self, *given, **more):\n        return super().start(*given, **more)\n"
    text = server.read_text().replace("import FedAvg", "import FedProx").replace("app = S", f"{loop}\n\napp = S")
    server.write_text(text.replace("strategy = FedAvg(fraction_train=0.5, ", "strategy = Own(proximal_mu=0.1, "))
    before = texts(app)
    status, _, err = aoi("adopt", app.name, "--write")
    assert status == 2 and "Own.start" in err and texts(app) == before


@pytest.mark.parametrize("app", ["quickstart_numpy"], indirect=True)
def test_the_next_commands_are_those_of_this_app(app, aoi):
    status, _, err = aoi("adopt", app.name, "--clients", "40")
    assert status == 0 and f"aoi play {app.name}" in err
    assert "aoi adopt --write" not in err  # it would write another app, or another number of clients
