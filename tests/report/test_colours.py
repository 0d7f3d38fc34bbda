"""Contrast (WCAG 2.1 AA), and colours that the colour-blind tell apart, by the style sheet of both themes."""

import re
from itertools import combinations, product

import numpy as np
import pytest

from aoi_fl.report.chart import RUN_COLOURS
from aoi_fl.report.template import fill

# Machado, Oliveira & Fernandes (2009), "A physiologically-based model for simulation of color vision deficiency",
# at full severity, of linear RGB.
VISION = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
_LIGHT, _DARK = fill("style.css").split("@media screen and (prefers-color-scheme: dark)")
THEMES = {name: dict(re.findall(r"--(\w+): (#\w{6})", text)) for name, text in {"light": _LIGHT, "dark": _DARK}.items()}
RUNS = [f"run{i}" for i in range(RUN_COLOURS)]


def linear(colour):
    value = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    dark, light = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


def lab(colour, vision):
    """Return CIELAB coordinates of a colour as it is seen, white being that of sRGB."""
    xyz = _XYZ @ np.clip(np.asarray(VISION[vision]) @ linear(colour), 0, 1) / _XYZ.sum(axis=1)
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def difference(one, other, vision):
    return float(np.linalg.norm(lab(one, vision) - lab(other, vision)))


@pytest.mark.parametrize("theme", THEMES)
def test_text_has_a_contrast_of_four_and_a_half_and_drawings_of_three(theme):
    colours = THEMES[theme]
    for text in ("ink", "muted", "bad"):
        for ground in ("page", "surface"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    assert contrast(colours["ink"], colours["absent"]) >= 4.5  # names on the wall
    for drawn in (*RUNS, "bad", "mark"):
        assert contrast(colours[drawn], colours["surface"]) >= 3, drawn


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("theme", THEMES)
def test_the_colour_blind_tell_runs_and_states_apart(theme, vision):
    """Of CIELAB differences about 2.3 is just noticeable; four settings, the usual many, are as far apart as can be."""
    colours = THEMES[theme]
    assert min(difference(colours[a], colours[b], vision) for a, b in combinations(RUNS, 2)) >= 12
    assert min(difference(colours[a], colours[b], vision) for a, b in combinations(RUNS[:4], 2)) >= 20

    for run, state in product(RUNS, ("absent", "part", "bad", "ink")):
        assert difference(colours[run], colours[state], vision) >= 8, (run, state)
