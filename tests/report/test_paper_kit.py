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


def test_a_comparison_is_drawn_and_exported_in_its_order(aoi, tmp_path, monkeypatch):
    status, out, err = aoi("compare", "systematic,random", *SMALL)
    assert status == 0, err
    name = Path(re.search(r"csv:  (.*)", out)[1]).stem
    for option in REFUSED:
        status, out, err = aoi("figure", name, *option)
        assert status == 2 and option[0] in err and not out and not list(tmp_path.glob("*.*"))
    status, out, err = aoi("figure", name, "--pdf", "--width", "3.4in")
    assert status == 0, err
    blob = (tmp_path / out.strip()).read_bytes()
    box = [float(x) for x in re.search(rb"/MediaBox \[ ?([\d. ]+)\]", blob)[1].split()]
    assert box[2] == pytest.approx(3.4 * 72, abs=0.5) and b"/FontFile2" in blob  # TrueType, as journals want
    assert aoi("figure", name, "--output", "again.pdf")[0] == 0 and (tmp_path / "again.pdf").read_bytes() == blob
    for chart in ("counts", "intervals", "participation-0", "test-loss"):
        status, out, err = aoi("figure", name, "--chart", chart, "--output", f"{chart}.svg", "--width", "86mm")
        assert status == 0 and (tmp_path / f"{chart}.svg").read_text().startswith("<?xml"), err
    status, out, err = aoi("export", name, "--latex")
    assert status == 0, err
    settings, conclusions = out.split("\\end{tabular}")[:2]
    assert settings.index("systematic") < settings.index("random")
    assert "$\\pm$ standard deviation of 2 seeds" in settings and "95\\,\\% interval" in conclusions
    assert re.search(r"^random & systematic & 2 & Jain's index & .*\[.*\] & no conclusion", conclusions, re.MULTILINE)
    assert not re.search(r"(?<!\\)[%_]", conclusions)
    assert re.search(r"\[\$-\$[\d.]+, ", conclusions) and not re.search(r"[ \[]-\d", conclusions)  # a minus, no hyphen
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, _, err = aoi("figure", name)
    assert status == 2 and "pip install matplotlib" in err
