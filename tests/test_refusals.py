"""Every refusal of the project has four fields."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = [path.name for path in (ROOT / "typings" / "aoi_fl").iterdir() if path.is_dir()]


def test_every_refusal_gives_four_fields():
    found = 0
    for path in (file for room in ROOMS for file in (ROOT / room).rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "ConfigError":
                assert len(call.args) == 4, f"{path.relative_to(ROOT)}:{call.lineno}"
                found += 1
    assert found > 300
