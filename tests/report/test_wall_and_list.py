"""The wall and the list of runs in a real Chromium: on every width, in both themes, by keyboard."""

import os
import re
from contextlib import ExitStack

import pytest

from aoi_fl.server.folder import only_player
from tests.report.chromium import WIDTHS, check_fit, faint, serving, until, visit
from tests.report.recorded import play_minutes

CLIENTS = [f"client-{c}" for c in range(12)] + ["a-device-with-the-longest-name-that-anybody-has-given-to-one.field"]
LONG = "markov-optimal-cifar100-of-the-second-series-with-an-uncommonly-long-name-20261121-124113"
# Every width, and both themes: they do not depend on one another.
SIZES = [
    pytest.param(width, i % 2 == 1, marks=[] if width == 1920 else pytest.mark.slow) for i, width in enumerate(WIDTHS)
]
# Elements whose content is wider than they are, but for names, which end in an ellipsis.
OVERFULL = """[...document.querySelectorAll("main *:not(h1)")].filter(
    e => e.clientWidth && e.scrollWidth > e.clientWidth + 1).map(e => e.outerHTML.slice(0, 80))"""


def play(folder, rounds, **about):
    play_minutes(folder, CLIENTS, rounds, ("failed", "late"), **{"config": {"num-server-rounds": 400}} | about)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Serve a list of runs in every state, one of them being played by this process."""
    home = tmp_path_factory.mktemp("home")
    play(home / "runs/done", 40)
    play(home / "runs/broken", 3, status="failed", reason=f"StorageError: no room for {'/very' * 30}/model.pt")
    play(home / "runs/gone", 9, status="running")
    play(home / "runs" / LONG, 137, status="running")
    with ExitStack() as stack:
        for name in (LONG, "gone"):
            stack.enter_context(only_player(home / "runs" / name))
        os.utime(home / "runs" / LONG / "ledger.sqlite")
        yield stack.enter_context(serving(cwd=home))


def follow(browser, address, **how):
    shown = visit(browser, address, **how)
    until(shown, "document.querySelector('main h1') !== null")
    return shown


@pytest.mark.parametrize("path", ["", f"run/{LONG}/wall"], ids=["list", "wall"])
@pytest.mark.parametrize(("width", "dark"), SIZES)
def test_every_width_and_theme_is_filled_and_read(address, browser, path, width, dark):
    shown = follow(browser, f"{address}/{path}", width=width, dark=dark)
    check_fit(shown, width)
    assert shown.evaluate(OVERFULL) == []
    assert shown.evaluate("getComputedStyle(document.body).color") == f"rgb{(241, 241, 238) if dark else (22, 24, 29)}"
    if path and width == 1920:  # a wall has nobody who scrolls, and is read from afar
        assert shown.evaluate("document.documentElement.scrollHeight") <= 1080
        texts = "[...document.querySelectorAll('main *')].filter(e => e.innerText?.trim())"
        assert shown.evaluate(f"Math.min(...{texts}.map(e => parseFloat(getComputedStyle(e).fontSize)))") >= 38
    shown.context.close()


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), SIZES)
def test_a_live_page_fits_every_width_in_both_themes(address, browser, width, dark):
    shown = follow(browser, f"{address}/run/{LONG}/", width=width, dark=dark)
    until(shown, "document.querySelectorAll('.js-plotly-plot .main-svg').length >= 6")
    check_fit(shown, width)
    assert shown.evaluate("[...document.querySelectorAll('nav > *')].every(e => e.scrollWidth <= e.clientWidth + 1)")
    shown.context.close()


def test_the_list_by_keyboard(address, browser):
    shown = follow(browser, f"{address}/")
    assert shown.title() == "Runs – AoI-FL"
    order = []
    for _ in range(14):
        shown.keyboard.press("Tab")
        order.append(shown.evaluate("document.activeElement.dataset.at"))
    keys = ("name", "policy", "data", "seed", "date", "state", "rounds", "value")
    rows = [f"{part}-{name}" for name in (LONG, "gone") for part in ("tick", "run", "wall")]
    assert order == [f"sort-{key}" for key in keys] + rows
    assert shown.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert shown.evaluate("document.activeElement.getBoundingClientRect().height") >= 24
    before = shown.inner_text("tbody tr")
    until(shown, f"document.querySelector('tbody tr').innerText !== {before!r}")  # a second has gone by
    assert shown.evaluate("document.activeElement.getAttribute('href')") == "run/gone/wall"
    shown.keyboard.press("Enter")
    shown.wait_for_url("**/run/gone/wall")
    until(shown, "document.title === 'gone – AoI-FL'")
    assert shown.evaluate("faults") == []


def test_the_list_is_sorted_and_ticked_runs_are_compared(address, browser):
    shown = follow(browser, f"{address}/")
    names = "[...document.querySelectorAll('tbody th')].map(head => head.dataset.sort)"
    assert shown.evaluate(names) == [LONG, "gone", "broken", "done"]
    for order in ([3, 9, 40, 137], [137, 40, 9, 3]):
        shown.click("[data-at=sort-rounds]")
        rounds = "[...document.querySelectorAll('[data-title=Rounds]')].map(cell => Number(cell.dataset.sort))"
        assert shown.evaluate(rounds) == order
    assert shown.locator("#compare").is_hidden()
    for name in ("done", "broken"):
        shown.check(f"input[value={name}]")
    before = shown.inner_text("tbody tr")
    until(shown, f"document.querySelector('tbody tr').innerText !== {before!r}")  # new content a second later
    assert shown.evaluate(rounds) == [137, 40, 9, 3]
    assert shown.locator("input:checked").count() == 2
    shown.click("#compare")
    until(shown, "document.querySelectorAll('.js-plotly-plot .main-svg').length >= 6")
    assert shown.inner_text("h1") == "2 runs compared" and shown.evaluate("faults") == []
    shown.context.close()


def test_a_wall_names_its_axes_and_a_live_page_its_progress(address, browser):
    shown = follow(browser, f"{address}/run/{LONG}/wall", width=1920)
    texts = [shown.inner_text(f".axes .{part}") for part in ("least", "most", "first", "last")]
    assert texts == ["10 %", "99 %", "round 1", "137"]
    shown.context.close()
    shown = follow(browser, f"{address}/run/{LONG}/")
    until(shown, "document.querySelector('#progress progress').value === 137")
    assert shown.evaluate("document.querySelector('#progress progress').max") == 400
    assert re.fullmatch(r"137 of 400 rounds, 4 h 2\d min left", shown.inner_text("#progress span"))
    shown.context.close()


@pytest.mark.slow
def test_a_server_that_does_not_answer_is_said(address, browser):
    shown = follow(browser, f"{address}/run/{LONG}/wall")
    shown.route("**/content", lambda route: route.abort())
    until(shown, "document.getElementById('lost').checkVisibility()")
    assert shown.locator("h1").is_visible() and faint(shown) == []
    shown.unroute("**/content")
    until(shown, "!document.getElementById('lost').checkVisibility()")
