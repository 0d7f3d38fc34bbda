"""Print code tokens by room: Python tokens without docstrings, comments, blank lines and imports (``make check``).

The rows of the experiments, in TOML, count like Python: they were Python before.
"""

import ast
import io
import subprocess
import token
import tokenize
from collections import Counter
from pathlib import Path

NOT_CODE = {token.COMMENT, token.NL, token.NEWLINE, token.INDENT, token.DEDENT, token.ENDMARKER}
LIBRARY = {"science", "protocol", "strategies", "client"}
LAB = {"lab", "experiments", "benchmarks"}
OTHERS = LAB | {"tests", "docs", "typings", ".ci"}


def count(text: str, is_code: bool = True) -> int:
    r"""Return the code tokens of a module, or of rows in TOML.

    >>> count("import os\n\n\ndef f(x):\n    '''Return x.'''\n    return x  # as it is\n")
    8
    >>> count("[a]\nx = ['y', 1]  # as it is\n", is_code=False)
    10
    """
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(text if is_code else "")):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if ast.get_docstring(node) is None:
                continue
            node = node.body[0]
        elif not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        left_out.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(each.type not in NOT_CODE and each.start[0] not in left_out for each in tokens)


def main() -> None:
    """Print a line for each room, and the sums."""
    tokens: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    skips = 0
    listing = ["git", "ls-files", "*.py", "lab/experiments/rows/*.toml"]
    tracked = subprocess.run(listing, capture_output=True, text=True, check=True).stdout
    for path in map(Path, tracked.splitlines()):
        text = path.read_text("utf-8") if path.exists() else ""
        tokens[path.parts[0]] += count(text, path.suffix == ".py")
        lines[path.parts[0]] += len(text.splitlines())
        skips += text.count("fmt: " + "skip")
    for room, number in tokens.most_common():
        print(f"{room:12} {number:8,} tokens {lines[room]:7,} lines {number / max(lines[room], 1):5.1f} a line")
    library, lab = (sum(tokens[room] for room in rooms) for rooms in (LIBRARY, LAB))
    product = sum(number for room, number in tokens.items() if room not in OTHERS)
    share = tokens["tests"] / (product + lab)
    print(f"library {library:,} · product {product:,} · product and lab {product + lab:,} · tests {share:.2f} a token")
    print(f"all {tokens.total():,} · fmt: {'skip'} {skips}")


if __name__ == "__main__":
    main()
