"""Write a small Flower app from the templates beside this module."""

import importlib.util
import keyword
import re
import sys
from pathlib import Path
from string import Template

from aoi_fl.config import policies
from aoi_fl.config.policies import BUDGETED, REGISTRY
from aoi_fl.science.errors import ConfigError, StorageError, check_choice

POLICIES = tuple(name for name in policies.POLICIES if name not in BUDGETED)
_TEMPLATES = Path(__file__).parent / "templates"
_NAME = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")
_LONGEST = 50
_TAKEN = {"tests", "runs", "aoi_fl"}  # the app's own folders, and ours
# Values of a strategy's arguments in an app, which has no run keys.
_VALUES = {"clients-per-round": "per_round", "candidates": "2 * per_round", "train-timeout": "600.0"}


def write(name: str, policy: str, parent: Path) -> Path:
    """Write an app into a new folder and return the folder.

    Parameters
    ----------
    name : the folder's name; with _ for -, the package's
    policy : a name in :data:`POLICIES`
    parent : the new folder's parent

    Raises
    ------
    ConfigError : the name is no package's name, the policy is unknown, or the folder is not empty.
    StorageError : the folder cannot be written.
    """
    package = package_of(name)
    check_choice("policy", policy, POLICIES)
    folder = parent / name
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ConfigError("NAME", folder, "a new or empty folder", "Choose another name, or move the folder.")
        for path, text in files(name, package, policy).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, "utf-8")
    except OSError as error:
        raise StorageError(f"the app cannot be written to {folder}: {error.strerror}. Go to another folder.") from None
    return folder


def package_of(name: str) -> str:
    """Return the name of an app's package.

    Raises
    ------
    ConfigError : the app's name gives no package's name, or another module has it.
    """
    package = name.replace("-", "_")
    if not _NAME.fullmatch(name) or len(name) > _LONGEST or keyword.iskeyword(package):
        raise ConfigError(
            "NAME",
            name,
            f"the name of a Python package: at most {_LONGEST} lower-case letters and digits, "
            "a letter first, words joined by '-' or '_'",
            "Write for instance my-app.",
        )
    if package in _TAKEN or package in sys.stdlib_module_names or importlib.util.find_spec(package):
        raise ConfigError(
            "NAME", name, f"different from the Python module {package!r}", "Choose another name, for instance my-app."
        )
    return package


def files(name: str, package: str, policy: str) -> dict[str, str]:
    """Return the text of an app's files, by their paths in its folder."""
    row = REGISTRY[policy]
    call = row.maker.partition(":")[2]
    if "coordination" in row.keys:  # the recommended preset
        arguments = ["clients", "per_round", 'coordination="reserve"', 'weights="size"']
    else:
        arguments = [_VALUES[key] for key in row.arguments]
    given = f"{', '.join(arguments)}, observer=observer, fraction_evaluate=0.0"
    line = f"{call}({given})"
    values = {
        "name": name,
        "package": package,
        "policy": policy,
        "who": row.who,
        "kind": call.split(".")[0],
        "strategy": line if len(line) <= 100 else f"{call}(\n        {given}\n    )",
    }
    return {
        _place(template.stem, package): Template(template.read_text("utf-8")).substitute(values)
        for template in sorted(_TEMPLATES.glob("*.template"))
    }


def _place(file: str, package: str) -> str:
    """Return the path of a template's file in the app."""
    if file.startswith("test_"):
        return f"tests/{file}"
    if file.endswith(".py"):
        return f"{package}/{file}"
    return f".{file}" if file == "gitignore" else file
