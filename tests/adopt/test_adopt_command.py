"""``aoi play`` and ``aoi adopt`` on apps of the shape of Flower's own examples."""

import sys
import time
from pathlib import Path

import pytest

from aoi_fl.report.runs import load
from tests.adopt.adoption import copied, rewrite
from tests.fakes import slow

APPS = ["quickstart_numpy", *slow(["quickstart_sklearn"], ["advanced_pytorch"])]


@pytest.fixture
def app(request, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    name = getattr(request, "param", "quickstart_numpy")
    return copied(name, tmp_path)


@pytest.fixture
def server(app):
    """Return the file of the app's server."""
    return app / app.name / "server_app.py"


def texts(folder):
    return {path: path.read_text().splitlines() for path in folder.rglob("*.py")}


@pytest.mark.parametrize("app", APPS, indirect=True)
def test_an_app_is_played_and_adopted(app, aoi, tmp_path):
    before, begun = texts(app), time.process_time()
    status, out, err = aoi(f"play {app.name} --policy markov-optimal --per-round 4 -c rounds=2")
    assert status == 0 and time.process_time() - begun < 20, err
    page = tmp_path / out.splitlines()[-1]
    run = load(page.parent, "")
    assert page.is_file() and run.policy["kind"].startswith("markov") and len(run.rounds) == 2
    assert {run.rounds[-1][name] for name in ("client_loss", "client_accuracy", "test_loss")} != {None}
    assert texts(app) == before
    status, out, err = aoi(f"adopt {app.name}")
    assert status == 0 and texts(app) == before
    added = [line for line in out.splitlines() if line.startswith("+") and not line.startswith("+++")]
    assert 0 < len(added) <= 3
    assert aoi(f"adopt {app.name} --write")[0] == 0 and texts(app) != before
    assert sum(line[1:] in lines for line in added for lines in texts(app).values()) == len(added)
    for module in [name for name in sys.modules if name.partition(".")[0] == app.name]:
        del sys.modules[module]
    status, out, err = aoi(f"play {app.name} -c rounds=2")
    assert status == 0, err
    assert load(tmp_path / Path(out.splitlines()[-1]).parent, "").policy["kind"].startswith("markov")
    assert not [line for line in aoi(f"adopt {app.name}")[1].splitlines() if line.startswith("+")]


FAULTS = {
    "raises": ("    strategy = FedAvg", "    1 / 0\n    strategy = FedAvg"),
    "would end as a success": ("    strategy = FedAvg", "    raise SystemExit(0)\n    strategy = FedAvg"),
    "ends when it is imported": ("app = ServerApp()", "raise SystemExit(0)"),
    "does not compile": ("app = ServerApp()", "app = = ServerApp()"),
    "has no app": ("app = ServerApp()", "app = 3"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_app_that_does_not_run_is_a_line_and_no_success(fault, app, server, refusal):
    rewrite(server, *FAULTS[fault])
    assert refusal(f"play {app.name}").startswith("aoi: APP")


@pytest.mark.parametrize("name", ['"Ünï_app"', '""', f'"{"a" * 150}"'])
def test_a_run_has_a_name_whatever_the_apps_is(name, app, aoi, tmp_path):
    rewrite(app / "pyproject.toml", 'name = "quickstart-numpy"', f"name = {name}")
    status, out, err = aoi(f"play {app.name} -c rounds=1")
    assert status == 0 and (tmp_path / out.splitlines()[-1]).is_file(), err


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
def test_the_clients_of_a_round_are_the_apps(given, per_round, app, server, aoi):
    rewrite(server, "fraction_train=0.5, ", f"{given}, " if given else "")
    rewrite(app / "pyproject.toml", "rounds = 3", "rounds = 3\nfraction-train = 0.2")
    status, out, said = aoi(f"adopt {app.name}")
    (line,) = (line for line in out.splitlines() if line.startswith("+") and ".optimal(" in line)
    assert ("--per-round" in said) == (per_round == "3")  # the number is not the app's
    assert status == 0 and f".optimal(10, {per_round}, " in line


def test_what_is_no_app_is_refused(app, server, refusal):
    for line in (
        "play nowhere",
        "adopt .",
        f"play {app.name} -c round=2",
        f"play {app.name} -c rounds=many",
        f"play {app.name} --policy wics",
        *(f"{command} {app.name} --clients 3 --per-round 4" for command in ("play", "adopt")),
    ):
        refusal(line)
    rewrite(server, "strategy = FedAvg(", "strategy = dict(FedAvg)(")
    assert "optimal(10, 3, aggregation=strategy)" in refusal(f"adopt {app.name}")  # the line to add


def test_a_strategy_of_ones_own_made_over_several_lines_is_adopted(app, server, aoi):
    imported = "from flwr.serverapp.strategy import FedAvg"
    server.with_name("own.py").write_text(f"{imported}\n\n\nclass Own(FedAvg):\n    pass\n")
    rewrite(server, imported, "from quickstart_numpy.own import Own")
    rewrite(server, "FedAvg(fraction_train=0.5, ", "Own(0.5, ")
    assert aoi(f"adopt {app.name}")[0] == 2
    rewrite(server, "Own(0.5, ", "Own(\n        fraction_train=0.5,\n        ")
    added = [line for line in aoi(f"adopt {app.name} --write")[1].splitlines() if line.startswith("+ ")]
    assert len(added) == 1 and ".optimal(" in added[0]
    status, _, err = aoi(f"play {app.name} -c rounds=2")
    assert status == 0, err


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


@pytest.mark.parametrize("kind", DERIVED)
def test_a_strategy_derived_from_any_of_flowers_is_adopted(kind, app, server, aoi, tmp_path):
    """The adopted app plays under the policy, and its own class aggregates."""
    classes, made = DERIVED[kind]
    rewrite(server, "import FedAvg", "import FedAdam, FedAdam as Adam, FedAvg")
    rewrite(server, "app = ServerApp()", f"{classes}\n\napp = ServerApp()")
    rewrite(server, "strategy = FedAvg(fraction_train=0.5, min_available_nodes=6)", made)
    assert aoi(f"adopt {app.name} --write")[0] == 0
    status, out, err = aoi(f"play {app.name} -c rounds=2")
    assert status == 0, err
    assert load(tmp_path / Path(out.splitlines()[-1]).parent, "").policy["kind"].startswith("markov")
    own = sys.modules["quickstart_numpy.server_app"].Own
    assert ("MarkovParticipation" in {base.__name__ for base in own.__mro__}) == (kind == "a grandchild of FedAvg")


def test_a_loop_of_ones_own_under_another_strategy_is_refused(app, server, aoi):
    loop = "class Own(FedProx):\n    def start(self, *given, **more):\n        return super().start(*given, **more)\n"
    rewrite(server, "import FedAvg", "import FedProx")
    rewrite(server, "app = ServerApp()", f"{loop}\n\napp = ServerApp()")
    rewrite(server, "strategy = FedAvg(fraction_train=0.5, ", "strategy = Own(proximal_mu=0.1, ")
    before = texts(app)
    status, _, err = aoi(f"adopt {app.name} --write")
    assert status == 2 and "Own.start" in err and texts(app) == before


def test_the_next_commands_are_those_of_this_app(app, aoi):
    status, _, err = aoi(f"adopt {app.name} --clients 40")
    assert status == 0 and f"aoi play {app.name}" in err
