"""The page in a real browser."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from potluck.studies.paper.charts import Chart, charts
from potluck.studies.paper.claims import judge
from potluck.studies.paper.page import page
from potluck.studies.paper.pictures import draw
from potluck.studies.paper.tables import all_tables
from tests.studies.paper.made_up import findings

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
LOOK = """
<script>
window.addEventListener("load", () => setTimeout(() => {
  const traces = chart => chart.querySelectorAll("svg.main-svg .trace").length;
  const drawn = [...document.querySelectorAll(".chart")].map(chart => [chart.id, traces(chart)]);
  document.querySelectorAll(".sortable")[0].querySelector("th").click();
  const sorted = [...document.querySelectorAll(".sortable")[0].tBodies[0].rows].map(r => r.cells[0].textContent);
  const table = [...document.querySelectorAll(".sortable")].find(t => t.textContent.includes("gain share"));
  const place = [...table.querySelectorAll("th")].findIndex(head => head.textContent === "nash conv");
  const column = () => [...table.tBodies[0].rows].map(r => r.cells[place].textContent);
  const orders = [0, 1].map(() => { table.querySelectorAll("th")[place].click(); return column(); });
  const found = document.createElement("script");
  found.type = "application/json"; found.id = "looked";
  const wide = document.documentElement.scrollWidth;
  found.textContent = JSON.stringify({drawn, sorted, orders, wide, window: window.innerWidth});
  document.body.append(found);
}, 500));
</script>
"""


@pytest.fixture(scope="module")
def drawn() -> list[Chart]:
    found = findings()
    return charts(all_tables(found), found.config)


@pytest.fixture(scope="module")
def text(drawn: list[Chart]) -> str:
    found = findings()
    return page(
        "The paper's evaluation",
        "So long.",
        judge(found),
        drawn,
        all_tables(found),
        {"seeds": "5"},
        {"paper": "x = 1\n"},
    )


def test_the_page_asks_the_network_for_nothing(text: str) -> None:
    own = text[: text.index("<script>")]
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//", own)
    assert "@import" not in own


def test_verdicts_come_before_figures_and_settings_last(text: str) -> None:
    places = [text.index(f"<h2>{head}</h2>") for head in ("Verdicts", "Figures", "Tables", "Settings")]
    assert places == sorted(places)


def test_every_figure_has_units_and_the_papers_three_come_first(drawn: list[Chart]) -> None:
    assert [chart.name for chart in drawn][:3] == ["payoffs-paper", "silos", "intensity"]
    for chart in drawn:
        assert chart.y
        assert chart.x or chart.kind == "points"


def test_a_name_cannot_end_the_script(drawn: list[Chart]) -> None:
    found = page("</script><b>", "", [], [drawn[0]], {}, {}, {"a": "</script>"})
    assert found.count("</script>") == 2


def test_pictures_are_the_same_bytes_each_time(drawn: list[Chart], tmp_path: Path) -> None:
    for folder in (tmp_path / "one", tmp_path / "two"):
        for chart in drawn[:1] + drawn[-1:]:
            draw(chart, folder)
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()


def browse(place: Path, width: int, *words: str) -> subprocess.CompletedProcess[str]:
    assert BROWSER
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr", "--v=0"]
    profile = f"--user-data-dir={place.parent / 'profile'}"
    window = [f"--window-size={width},1600", "--virtual-time-budget=20000"]
    command = [BROWSER, *flags, profile, *window, *words, place.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
@pytest.mark.parametrize("width", [500, 1400])
def test_a_browser_draws_every_chart_and_complains_of_nothing(
    text: str, drawn: list[Chart], width: int, tmp_path: Path
) -> None:
    place = tmp_path / "report.html"
    place.write_text(text.replace("</body>", LOOK + "</body>"), encoding="utf-8")
    found = browse(place, width, "--dump-dom")
    assert "CONSOLE" not in found.stderr, found.stderr
    looked = re.search(r'<script type="application/json" id="looked">(.*?)</script>', found.stdout)
    assert looked, found.stdout[-2000:]
    seen = json.loads(looked[1])
    assert {name for name, traces in seen["drawn"] if traces} == {chart.name for chart in drawn}
    assert seen["wide"] <= seen["window"], "the page is wider than its window"
    assert seen["sorted"] == sorted(seen["sorted"])
    for order, falling in zip(seen["orders"], (False, True), strict=True):
        numbers = [float(text) for text in order if text != "–"]
        assert order[: len(numbers)] != order
        assert "–" not in order[: len(numbers)]
        assert numbers == sorted(numbers, reverse=falling)
    shot = tmp_path / "shot.png"
    browse(place, width, f"--screenshot={shot}")
    pixels = np.asarray(Image.open(shot).convert("L"))
    assert pixels.shape[1] == width
    assert 0.01 < (pixels < 200).mean() < 0.6
