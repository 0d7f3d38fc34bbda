"""What a paper takes from a comparison: figures as files, and tables in LaTeX."""

import re
import sys
from pathlib import Path

import pytest

SMALL = ("--clients", "6", "--per-round", "2", "--rounds", "3", "--seeds", "2", "-c", "model=lr", "-q")
REFUSED = [
    ("--width", "3.4"),
    ("--width", "nan in"),
    ("--width", "900cm"),
    ("--chart", "nosuch"),
    ("--output", "x.svg", "--pdf"),
    ("--output", "x.doc"),
]


def test_a_comparison_is_drawn_and_exported_in_its_order(aoi, told, refusal, tmp_path, monkeypatch):
    name = Path(told("compare systematic,random", *SMALL)["csv"]).stem
    for option in REFUSED:
        assert option[0] in refusal("figure", name, *option) and not list(tmp_path.glob("*.*"))

    def done(line, *more):
        status, out, err = aoi(line, name, *more)
        assert status == 0, err
        return out

    blob = (tmp_path / done("figure", "--pdf", "--width", "3.4in").strip()).read_bytes()
    box = [float(x) for x in re.search(rb"/MediaBox \[ ?([\d. ]+)\]", blob)[1].split()]
    assert box[2] == pytest.approx(3.4 * 72, abs=0.5) and b"/FontFile2" in blob  # TrueType, as journals want
    done("figure", "--output", "again.pdf")
    assert (tmp_path / "again.pdf").read_bytes() == blob
    for chart in ("counts", "intervals", "participation-0", "test-loss"):
        done("figure", "--chart", chart, "--output", f"{chart}.svg", "--width", "86mm")
        assert (tmp_path / f"{chart}.svg").read_text().startswith("<?xml")
    settings, conclusions = done("export", "--latex").split("\\end{tabular}")[:2]
    assert settings.index("systematic") < settings.index("random")
    assert "$\\pm$ standard deviation of 2 seeds" in settings and "95\\,\\% interval" in conclusions
    assert re.search(r"^random & systematic & 2 & Jain's index & .*\[.*\] & no conclusion", conclusions, re.MULTILINE)
    assert not re.search(r"(?<!\\)[%_]", conclusions)
    assert re.search(r"\[\$-\$[\d.]+, ", conclusions) and not re.search(r"[ \[]-\d", conclusions)  # a minus, no hyphen
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "pip install matplotlib" in refusal("figure", name)
