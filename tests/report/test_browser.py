"""Pages in a real Chromium: by pointer and keyboard, on every width, in both themes, on paper and as files."""

import re
import struct

import pytest

from aoi_fl.lab.experiments.harness.comparison import compare
from aoi_fl.protocol.records import ClientRecord, Participation, RoundRecord
from aoi_fl.report import page
from aoi_fl.report.chart import HEIGHT
from aoi_fl.report.figures import figures
from aoi_fl.report.runs import load_all
from tests.report.chromium import WIDTHS, check_fit, until, visit
from tests.report.recorded import budgeted_run, dropped_run, play, record
from tests.report.test_seeds import play as play_seed

# Charts whose axis' name lies upon the names of their rows, or these upon one another.
OVERPRINTED = """[...document.querySelectorAll(".chart")].filter(chart => {
    const name = chart.querySelector(".ytitle")?.getBoundingClientRect();
    const rows = [...chart.querySelectorAll(".ytick text")].map(row => row.getBoundingClientRect());
    rows.sort((one, other) => one.top - other.top);
    return rows.some((row, i) => row.left < name?.right - 1 || row.top < rows[i - 1]?.bottom - 5);
}).map(chart => chart.id)"""


def report(browser, path, charts, **how):
    shown = visit(browser, path.as_uri(), **how)
    until(shown, f"document.querySelectorAll('.js-plotly-plot .main-svg').length >= {charts}")
    return shown


def marked(shown):
    """Return how many marks each chart has."""
    count = "[...document.querySelectorAll('.chart')].map(chart => [chart.id, chart.layout.shapes?.length ?? 0])"
    return {name: number for name, number in shown.evaluate(count) if number}


def test_a_page_by_pointer_and_keyboard(tmp_path, browser):
    play(tmp_path / "a")
    play(tmp_path / "b", policy="random")
    shown = report(browser, page.write([str(tmp_path / "a"), str(tmp_path / "b")], tmp_path / "page.html"), 6)
    every = {"participation-0": 1, "participation-1": 1, "counts": 2}
    shown.locator("#participation-0 .nsewdrag").click(position={"x": 30, "y": 5})  # the row of the first client
    assert marked(shown) == every and shown.input_value("#client") == "0"
    shown.fill("#client", "7")
    shown.keyboard.press("Enter")
    assert marked(shown) == every
    shown.focus("#counts")
    shown.keyboard.press("Escape")
    assert marked(shown) == {} and shown.input_value("#client") == ""
    shown.keyboard.press("ArrowRight")
    until(shown, "/client \\d+: \\d+ rounds/.test(document.getElementById('said')?.textContent)")
    assert shown.locator("#counts .hoverlayer .hovertext").count() == 1
    shown.keyboard.press("Enter")
    assert marked(shown) == every
    shown.focus("#participation-0")
    for key in ("ArrowRight", "ArrowDown", "ArrowDown"):
        shown.keyboard.press(key)
    until(shown, "document.getElementById('said').textContent.includes('client 2, round 1')")
    for form, magic in (("svg", b"<svg"), ("png", b"\x89PNG")):
        with shown.expect_download() as download:
            shown.locator(f"section:has(#test-accuracy) button[data-save={form}]").click()
        saved = tmp_path / download.value.suggested_filename
        download.value.save_as(saved)
        assert saved.name == f"test-accuracy.{form}" and saved.read_bytes().startswith(magic)
    assert struct.unpack(">II", saved.read_bytes()[16:24]) == (2700, 3 * (HEIGHT + 64))
    assert "Test accuracy" in (tmp_path / "test-accuracy.svg").read_text()
    assert shown.evaluate("faults") == []


def test_a_page_of_six_runs_has_at_most_three_screens(tmp_path, browser):
    names = [play_seed(tmp_path / f"{policy}-{seed}", seed, policy) for policy in ("a", "random") for seed in (1, 2, 3)]
    apart = [play_seed(tmp_path / policy, 1, policy) for policy in "bcdefg"]
    for six in (names, apart):
        shown = report(browser, page.write(six, tmp_path / "page.html"), 6, width=1440)
        assert shown.evaluate("document.documentElement.scrollHeight") <= 3 * 900
        lefts = "[...document.querySelectorAll('.grid > *')].map(e => e.getBoundingClientRect().right)"
        assert max(shown.evaluate(lefts)) - shown.evaluate(lefts)[-1] < 1  # the last row is filled
        shown.close()


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_page_fits_every_width_in_both_themes(tmp_path, browser, width, dark):
    names = [play_seed(tmp_path / f"seed-{seed}", seed) for seed in (1, 2, 3)]
    fleet = [ClientRecord(c, f"client-{c}", 1) for c in range(20)]
    parts = [Participation(c, f"client-{c}", "trained") for c in range(0, 20, 3)]
    names.append(str(record(tmp_path / "n", [RoundRecord(t, participations=parts) for t in (1, 2, 3)], fleet)))
    names += [str(play_into(tmp_path / "a")), str(budgeted_run(tmp_path / "w")), str(dropped_run(tmp_path / "d"))]
    shown = report(browser, page.write(names, tmp_path / "page.html"), 10, width=width, dark=dark)
    check_fit(shown, width)
    wide = "[...document.querySelectorAll('.main-svg')].filter(svg => svg.getBoundingClientRect().right > innerWidth)"
    assert shown.evaluate(f"{wide}.length") == 0
    assert width > 480 or shown.evaluate(
        "[...document.querySelectorAll('.answer')].every(e => e.scrollWidth <= e.clientWidth)"
    )
    assert shown.evaluate(OVERPRINTED) == []
    smallest = "Math.min(...[...document.querySelectorAll('button')].map(b => b.getBoundingClientRect().height))"
    assert shown.evaluate(smallest) >= 24
    ink = shown.evaluate("getComputedStyle(document.body).color")
    assert ink == ("rgb(241, 241, 238)" if dark else "rgb(22, 24, 29)")


def play_into(folder):
    play(folder)
    return folder


@pytest.mark.slow
def test_a_comparison_fits_a_small_screen_and_paper(tmp_path, browser):
    kinds = ("oldest-age", "random", "proportional")
    names = [play_seed(tmp_path / f"{policy}-{seed}", seed, policy) for policy in kinds for seed in (1, 2, 3)]
    runs, path = load_all(names), tmp_path / "page.html"
    for run in runs:
        run.about.update(test_by_client={"a": 0.5, "b": 0.6}, model_bytes=1e6)
        run.config["weights"] = "size" if run.config["policy"] == "random" else "equal"
    path.write_text(page.render(runs, compare(runs, 0.3).pairs))
    shown = report(browser, path, 5, width=1200)
    assert shown.locator("thead th", has_text="worst tenth").count() == 1
    wide = "[...document.querySelectorAll('.answer')].filter(e => e.scrollWidth > e.clientWidth).length"
    assert shown.evaluate(wide) == 0
    shown.close()
    shown = report(browser, path, 5, width=700)
    shown.emulate_media(media="print", color_scheme="light")
    assert shown.locator(".forest").count() > 4
    assert shown.evaluate("document.querySelector('.answer table').getBoundingClientRect().right") <= 700


@pytest.mark.slow
def test_a_page_prints_headline_and_charts_in_the_colours_of_paper(tmp_path, browser):
    runs = [str(play_into(tmp_path / name)) for name in "abc"]
    path = page.write(runs, tmp_path / "page.html")
    charts = len(figures(load_all(runs)))
    shown = report(browser, path, charts, dark=True)
    shown.emulate_media(media="print", color_scheme="dark")
    shown.evaluate("dispatchEvent(new Event('beforeprint'))")
    tall = "c.querySelector('.main-svg').getBoundingClientRect().height > 200"
    lines = "c.querySelector('.trace, .hm image')"
    drawn = f"[...document.querySelectorAll('.chart')].every(c => {tall} && {lines})"
    assert shown.evaluate(drawn) and shown.locator("details").first.is_hidden()
    assert shown.evaluate("getComputedStyle(document.body).color") == "rgb(22, 24, 29)"
    assert shown.evaluate("document.getElementById('test-accuracy').data[0].line.color") == "#2a78d6"
    assert shown.locator("button[data-save]").first.is_hidden()
    shown.evaluate("dispatchEvent(new Event('afterprint'))")
    pages = len(re.findall(rb"/Type ?/Page\b", shown.pdf(format="A4")))
    assert pages <= 6
    assert shown.evaluate("faults") == []
