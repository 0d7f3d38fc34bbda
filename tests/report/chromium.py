"""Opening pages in a real Chromium, and what is to be asked of them."""

import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager

from tests.processes import ROOT

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDTHS = (390, 768, 1440, 1920)


def visit(browser, address, width=1440, dark=False):
    """Open a page; what goes wrong on it is collected in ``faults``."""
    shown = browser.new_page(viewport={"width": width, "height": 1080}, color_scheme="dark" if dark else "light")
    shown.add_init_script("""window.faults = [];
        addEventListener("error", event => faults.push(event.message));
        addEventListener("unhandledrejection", event => faults.push(String(event.reason)));
        addEventListener("securitypolicyviolation", event => faults.push(event.violatedDirective));""")
    shown.goto(address)
    return shown


def until(shown, expression):
    """Wait until an expression is true; the pages forbid what Playwright's own waiting does, to evaluate a text."""
    end = time.monotonic() + 30
    while not shown.evaluate(expression):
        assert time.monotonic() < end, f"{expression}: {shown.evaluate('document.body.innerText')[:500]}"
        shown.wait_for_timeout(50)


@contextmanager
def serving(*arguments, cwd=ROOT):
    """Run ``aoi serve`` and yield its address."""
    command = [sys.executable, "-m", "aoi_fl.cli.start", "serve", *map(str, arguments), "--port", "0"]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path}
    with subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            yield server.stdout.readline().split()[-1]
        finally:
            server.terminate()
            assert server.wait(10) in (0, -15)


def check_fit(shown, width):
    """Check that a page is as wide as its window, can be read, and that nothing went wrong on it."""
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    assert faint(shown) == [] and shown.evaluate("faults") == []


def faint(shown):
    """Return every text that its background leaves less contrast than WCAG 2.1 AA asks for, with the ratio."""
    found = shown.evaluate("""() => {
        const parts = colour => colour.match(/[\\d.]+/g).map(Number);
        const light = colour => parts(colour).slice(0, 3).map(c => c / 255)
            .map(c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
            .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
        const behind = node => { for (; node; node = node.parentElement) {
            const colour = getComputedStyle(node).backgroundColor;
            if (parts(colour)[3] !== 0) return colour; } return "rgb(255, 255, 255)"; };
        const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), weak = [];
        for (let text = texts.nextNode(); text; text = texts.nextNode()) {
            const node = text.parentElement, style = getComputedStyle(node);
            if (!text.data.trim() || !node.checkVisibility()) continue;
            const ink = node instanceof SVGElement ? style.fill : style.color;
            const [low, high] = [light(ink), light(behind(node))].sort((a, b) => a - b);
            const size = parseFloat(style.fontSize), large = size >= 24 || size >= 18.66 && style.fontWeight >= 700;
            const ratio = (high + .05) / (low + .05);
            if (ratio < (large ? 3 : 4.5)) weak.push(`${ratio.toFixed(2)} ${text.data.trim()}`);
        }
        return weak;
    }""")
    return found
