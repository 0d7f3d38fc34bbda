"""``make pictures``: play the default task and take the pictures of README and of the site, in a Chromium.

A run under random selection is played to its end; one under the optimal Markov policy is seen while it is played, on
the list of runs, the wall and the live page; at the end both are put on one page.
"""

import argparse
import io
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from aoi_fl.report import page
from aoi_fl.report.summary_card import glance

HERE = Path(__file__).resolve().parent
COMMAND = [sys.executable, "-m", "aoi_fl.cli.start"]
SEEN_AFTER = 15  # rounds
WIDTH = 1000  # about as wide as README is read


def main() -> None:
    """Take all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=HERE, help="the folder that they are written to")
    output = parser.parse_args().output
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        home = Path(folder)
        with play(home, "random") as run:
            run.wait()
        with serving(home) as address, play(home, "markov-optimal") as run:
            while glance(home / "runs" / "markov-optimal").round < SEEN_AFTER:
                time.sleep(0.2)
            take(browser, f"{address}/", output / "list.png", height=306)
            take(browser, f"{address}/run/markov-optimal/wall", output / "wall.png", width=1920, height=1080, scale=0.5)
            take(browser, f"{address}/run/markov-optimal/", output / "live.png", upto="#participation-0")
            run.wait()
        names = [str(home / "runs" / name) for name in ("markov-optimal", "random")]
        shown = page.write(names, home / "report.html")
        take(browser, shown.as_uri(), output / "report.png", upto="#participation-1")
        browser.close()


@contextmanager
def play(home: Path, policy: str) -> Iterator[subprocess.Popen[bytes]]:
    """Play the default task by a policy, in a process of its own."""
    with subprocess.Popen([*COMMAND, "run", "--policy", policy, "--run-name", policy, "--quiet"], cwd=home) as run:
        yield run


@contextmanager
def serving(home: Path) -> Iterator[str]:
    """Serve the list of runs and yield its address."""
    with subprocess.Popen([*COMMAND, "serve", "--port", "0"], cwd=home, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield next(iter(server.stdout or ())).split()[-1]
        finally:
            server.send_signal(signal.SIGINT)


def take(
    browser: Browser,
    address: str,
    path: Path,
    *,
    width: int = WIDTH,
    height: int = 1080,
    scale: float = 1.0,
    upto: str | None = None,
) -> None:
    """Take the picture of a page, once its charts are drawn: of its first ``height``, or up to the card of a chart."""
    context = browser.new_context(viewport={"width": width, "height": height}, device_scale_factor=scale)
    shown = context.new_page()
    shown.goto(address)
    shown.wait_for_selector("main h1")
    charts = shown.locator(".chart")
    for i in range(charts.count()):
        charts.nth(i).locator(".main-svg").first.wait_for()
    if upto is not None:
        height = shown.evaluate(f"document.querySelector('{upto}').closest('section').getBoundingClientRect().bottom")
        height += 16
    picture = shown.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": width, "height": height})
    Image.open(io.BytesIO(picture)).quantize(64, dither=Image.Dither.NONE).save(path, optimize=True)
    context.close()
    print(path)


if __name__ == "__main__":
    main()
