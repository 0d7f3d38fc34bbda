"""A script without a main guard is refused before its workers run it again, for ever."""

import pytest

from tests.processes import python

SCRIPT = """
from aoi_fl.server.engine.machine import check_main
from aoi_fl.server.engine.parent import unordered
{}
    {}
print("begun")
"""


@pytest.mark.parametrize("call", ["check_main(2)", "list(unordered(abs, [1, 2], 2))"])
@pytest.mark.parametrize(
    ("guard", "refused"),
    [("if True:", True), ("if __name__ != 'other':", True), ("if __name__ == '__main__':", False)],
)
def test_workers_need_a_main_guard(guard, refused, call, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(guard, call))
    done = python(script, status=int(refused))
    assert ("script.py: if" in done.stderr, "begun" in done.stdout) == (refused, not refused)


def test_workers_need_a_program_in_a_file():
    program = SCRIPT.format("if __name__ == '__main__':", "check_main(2)")
    done = python("-", given=program, status=1)
    assert "ConfigError: workers" in done.stderr and not done.stdout
