"""Plotly's script is cut to what pages draw, and only where it is understood."""

import re

from plotly.offline import get_plotlyjs

from aoi_fl.report import plotly


def test_the_client_image_is_small_and_registers_its_mods():
    whole, cut = get_plotlyjs(), plotly.script()
    assert len(cut) < len(whole) / 2
    (registered,) = re.findall(r"\.register\(\[((?:[\w$]+\(\),?)+)\]\)", cut)
    assert len(registered.split(",")) == len(plotly.DRAWN)
    for kind in ("scatter", *plotly.DRAWN):
        assert f'moduleType:"trace",name:"{kind}"' in cut
    assert 'moduleType:"trace",name:"sankey"' in whole and 'moduleType:"trace",name:"sankey"' not in cut
    assert cut.startswith(whole[:200]) and cut.endswith(whole[-200:])  # with its licence


def bundle(*modules: str) -> str:
    padding = "".join(f"var p{i}={i};" for i in range(plotly._FEW))
    return "var Plotly=(()=>{" + "".join(modules) + padding + "return last();})();"


BAR, PIE = (f'var {k}=W((e,t)=>{{t.exports={{moduleType:"trace",name:"{k}"}};{k}Help()}});' for k in ("bar", "pie"))
HELP = "function barHelp(){return shared}function pieHelp(){return shared}var shared={};fill(shared,{x:()=>1});"
LAST = "var last=W((e,t)=>{t.exports=core();core().register([bar(),pie()])});"


def test_a_module_stays_if_anything_that_stays_names_it():
    cut = plotly.trim(bundle(HELP, BAR, PIE, LAST), ("bar",))
    assert "register([bar()])" in cut and 'name:"bar"' in cut and "function barHelp" in cut
    assert "fill(shared" in cut and "var shared" in cut
    assert "pie" not in cut and "var p1=" not in cut


def test_a_script_of_another_form_stays_whole():
    for other in ("", "let x = 1;", "not } JavaScript", bundle(HELP, BAR, PIE), bundle(HELP, BAR, LAST)):
        assert plotly.trim(other, ("bar", "pie")) == other
    unknown = bundle(HELP, BAR, PIE, LAST)
    assert plotly.trim(unknown, ("bar", "heatmap")) == unknown
