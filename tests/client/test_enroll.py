"""Enrolment: keys that Flower reads, files that nobody else reads, and nothing overwritten."""

import importlib
import os
import shlex
import shutil
import stat
import subprocess
import time
from pathlib import Path
from unittest.mock import ANY

import pytest
from cryptography.hazmat.primitives import serialization
from flwr.cli.supernode.register import try_load_public_key

from aoi_fl.client.device import enroll, reach
from aoi_fl.client.supernode import own_options
from tests.refusals import refused


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def command(service):
    text = service.read_text().replace("\\\n", " ")
    (line,) = [line for line in text.splitlines() if line.startswith("ExecStart=")]
    return shlex.split(line.removeprefix("ExecStart="))


def test_flower_reads_both_halves_of_the_key(enrol, authority, monkeypatch):
    old = os.umask(0)  # a careless umask must not open the key
    try:
        made = enrol(superlink="link.example.org:9092")
    finally:
        os.umask(old)
    assert mode(made.folder / "client.key") == 0o600
    assert (authority / "trust/ca.crt").read_bytes() == (made.folder / "ca.crt").read_bytes()
    words = [word.replace("${SUPERLINK}", "link.example.org:9092") for word in command(made.units[0])]
    assert words[1:3] == ["-m", "aoi_fl.client.supernode"]
    ours, theirs = own_options(words[3:])
    assert ours.session == Path("/var/lib/aoi/pi-3/session") and not ours.leave
    monkeypatch.setattr("sys.argv", [words[2], *theirs])
    config = importlib.import_module("flwr.supernode.cli.flower_supernode")._parse_supernode_lifespan_config()
    assert config.server_address == "link.example.org:9092"
    assert not config.insecure and config.root_certificates == (made.folder / "ca.crt").read_bytes()
    private, public = config.authentication_keys
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    assert private.curve.name == "secp256r1" and try_load_public_key(made.public_file) == pem
    assert config.node_config["name"] == "pi-3"
    assert config.node_config["state-dir"] == "/var/lib/aoi/pi-3"
    lines = set(made.units[0].read_text().splitlines())
    assert {"Restart=always", "RestartSec=15", "StartLimitIntervalSec=0", "StateDirectory=aoi/pi-3"} < lines


@pytest.mark.parametrize("step", ["write_whole", "_write_new"])
def test_an_enrolment_that_breaks_off_is_repeated(enrol, tmp_path, monkeypatch, step):
    with monkeypatch.context() as patch, refused("--dir"):
        patch.setattr(enroll, step, lambda path, *_: (_ for _ in ()).throw(OSError(28, "No space left", path)))
        enrol()
    assert not (tmp_path / "pi-3" / "client.key").exists()  # it is written last
    made = enrol()
    assert mode(made.folder / "client.key") == 0o600 and not [*made.folder.glob(".*")]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("how", [{}, {"sandbox": True}, {"timed": True}], ids=str)
def test_systemd_takes_the_units(enrol, how):
    made = enrol(**how)
    done = subprocess.run(["systemd-analyze", "verify", *made.units], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_apps_unit_has_no_network_no_key_and_no_state_of_the_client(enrol, tmp_path):
    made = enrol(sandbox=True)
    app, client = (unit.read_text().splitlines() for unit in made.units)
    assert {"DynamicUser=yes", "PrivateNetwork=yes", "IPAddressDeny=any", "ProtectHome=tmpfs"} < set(app)
    assert f"TemporaryFileSystem={tmp_path / 'pi-3'}/:ro /var/lib/aoi:ro" in app
    (readable,) = (line for line in app if line.startswith("BindReadOnlyPaths="))
    paths = readable.partition("=")[2].split()
    assert [path for path in paths if str(tmp_path) in path] == [str(tmp_path / "pi-3" / "data")]
    assert "Wants=aoi-pi-3-app.service" in client and command(made.units[-1])[-2:] == [
        "--app-socket",
        "/run/aoi-pi-3/app",
    ]


def test_a_timer_starts_the_unit_at_the_clients_return(enrol, tmp_path):
    made = enrol(timed=True)
    service, timer = made.units
    assert "--leave" in command(service) and "Restart=on-failure" in service.read_text()
    assert "WantedBy=timers.target" in timer.read_text() and "[Install]" not in service.read_text()
    assert f"enable --now {timer.name}\n" in enroll.next_steps(made)
    (line,) = [line for line in service.read_text().splitlines() if line.startswith("ExecCondition=")]
    text = line.removeprefix("ExecCondition=").replace("$$", "$").replace("%%", "%")
    words = shlex.split(text.replace("/var/lib/aoi/pi-3", str(tmp_path)))

    def due():
        return subprocess.run(words, check=False).returncode == 0

    assert due()
    later = f"{time.time() + 60:.0f}"
    for text, expected in (
        (f"{later} {later} 7\n", False),
        (f"{time.time() - 1:.0f} {later} 7\n", True),
        ("0 0 7\n", True),
        ("", True),
        (later[:6], True),
        ("\0\0 7\n", True),
        ("x 0 7\n", True),
    ):
        (tmp_path / "session").write_text(text)
        assert due() == expected, text


def test_a_key_is_never_overwritten(enrol, tmp_path):
    made = enrol()
    before = {path: path.read_bytes() for path in made.folder.rglob("*") if path.is_file()}
    with refused("--dir"):
        enrol(superlink="other:9092")
    assert {path: path.read_bytes() for path in made.folder.rglob("*") if path.is_file()} == before
    (tmp_path / "pi-4").mkdir()
    (tmp_path / "pi-4" / "client.key").symlink_to(tmp_path / "nowhere")
    with refused("--dir"):
        enrol(name="pi-4", folder=tmp_path / "pi-4")


def test_a_new_key_or_another_enrolment_keeps_the_owners_rules(enrol, authority, tmp_path, aoi):
    folder, form = tmp_path / "device", (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    node, key, public = (folder / name for name in ("node.toml", "client.key", "pi-3.pub"))
    rules, former = None, b""
    for words in (f"--name pi-3 --superlink h:9092 --ca {authority / 'trust/ca.crt'}", "--new-key"):
        output = "".join(map(str, aoi(f"enroll --dir {folder} {words}")))
        private, shown = serialization.load_ssh_private_key(key.read_bytes(), None), public.read_bytes().strip()
        assert private.public_key().public_bytes(*form) == shown != former and mode(key) == 0o600
        assert shown.decode() in output and "PRIVATE KEY" not in output
        assert rules in (None, node.read_text())
        former, rules = shown, node.read_text() + "# a rule\n"
        node.write_text(rules)
    key.unlink()
    with refused("--name", "pi-4"):
        enrol(name="pi-4", folder=folder)
    enrol(superlink="other:9092", folder=folder)
    assert node.read_text() == rules
    with refused("--dir"):
        enroll.new_key(tmp_path)


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"name": "../x"}, ("client name", "../x")),
        ({"superlink": "host"}, ("superlink", "host")),
        ({"superlink": "::1:9092"}, ("superlink", "::1:9092")),
        ({"superlink": "a $(b):9092"}, ("superlink", "a $(b):9092")),
        ({"ca": Path("/nowhere/ca.crt")}, ("--ca", "/nowhere/ca.crt", "No such file")),
        ({"ca": Path(__file__)}, ("--ca", __file__)),
        ({"folder": Path("/proc/pi-3")}, ("--dir", "/proc/pi-3")),
        ({"folder": Path("a folder")}, ("--dir", ANY, "free of spaces")),
    ],
)
def test_errors_name_the_thing_and_leave_nothing(enrol, tmp_path, monkeypatch, change, fields: tuple):
    monkeypatch.chdir(tmp_path)
    with refused(*fields):
        enrol(**change)
    assert not any(tmp_path.iterdir())


def test_addresses():
    assert reach.split_address("pi.local:9092") == ("pi.local", 9092)
    assert reach.split_address("[2001:db8::1]:9092") == ("2001:db8::1", 9092)
