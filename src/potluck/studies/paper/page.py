"""`report.html`: one page that needs no network. Verdicts first, figures that zoom, sortable tables, settings last."""

import json
import math
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any

from potluck.studies.paper.charts import Chart, Line
from potluck.studies.paper.findings import Table
from potluck.studies.paper.statistics import LEVEL
from potluck.studies.paper.verdicts import Claim

MARKS = {"holds": "✓", "does not hold": "✗", "not decided": "?"}
DASHES = {"-": "solid", "--": "dash", ":": "dot", "-.": "dashdot"}


def page(
    title: str,
    budget: str,
    claims: Sequence[Claim],
    charts: Sequence[Chart],
    tables: Mapping[str, Table],
    settings: Mapping[str, str],
    scenarios: Mapping[str, str],
) -> str:
    """The whole page as text."""
    drawn = {chart.name: {"data": _traces(chart), "layout": _layout(chart)} for chart in charts}
    return _filled(
        title=escape(title),
        summary=escape(f"{_summary(claims)} {budget}"),
        claims=_claims(claims),
        figures="\n".join(_figure(chart) for chart in charts),
        tables="\n".join(_table(name, table) for name, table in tables.items() if table),
        settings=_settings(settings),
        scenarios="\n".join(f"<h3>{escape(name)}</h3><pre>{escape(text)}</pre>" for name, text in scenarios.items()),
        # </script> inside a script would end it.
        charts=json.dumps(drawn, ensure_ascii=False).replace("</", "<\\/"),
        plotly=_plotly(),
    )


def _filled(**parts: str) -> str:
    """The page with `@@name@@` replaced: braces and dollars mean something to Plotly."""
    text = (resources.files("potluck.studies.paper") / "page.html").read_text(encoding="utf-8")
    return "".join(parts[piece] if number % 2 else piece for number, piece in enumerate(text.split("@@")))


def _plotly() -> str:
    """Plotly's own script, from the package that is installed."""
    script = (resources.files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")
    return script.replace("</script", "<\\/script")


def _summary(claims: Sequence[Claim]) -> str:
    """What a person would say first."""
    counts = {verdict: sum(claim.verdict == verdict for claim in claims) for verdict in MARKS}
    said = ", ".join(
        f"{count} {told}"
        for count, told in zip(counts.values(), ("hold", "do not hold", "are not decided"), strict=True)
    )
    return f"Of {len(claims)} claims that were put to the test {said}."


def _claims(claims: Sequence[Claim]) -> str:
    rows = [
        f'<tr class="{claim.verdict.replace(" ", "-")}"><td data-label="verdict"><b>{MARKS[claim.verdict]} '
        f'{claim.verdict}</b></td><td data-label="claim">{escape(claim.says)}</td><td data-label="world">'
        f'{escape(claim.world)}</td><td data-label="measured">{escape(claim.number)}</td>'
        f'<td data-label="interval">{_interval(claim)}</td>'
        f'<td data-label="seeds">{claim.seeds or ""}</td></tr>'
        for claim in claims
    ]
    heads = "".join(f"<th>{head}</th>" for head in ("verdict", "claim", "world", "measured", "interval", "seeds"))
    return f'<table class="claims sortable"><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def _interval(claim: Claim) -> str:
    """With its level where that is not the usual one."""
    if claim.low is None or claim.high is None:
        return ""
    low, high = (f"{end:,.0f}" if abs(end) >= 1000 else f"{end:.4g}" for end in (claim.low, claim.high))
    level = "" if claim.level == LEVEL else f" at {100 * claim.level:.4g}%"
    return f"{low} to {high}{level}"


def _figure(chart: Chart) -> str:
    note = f"{escape(chart.note)} " if chart.note else ""
    return (
        f'<figure><div class="chart" id="{chart.name}" role="img" aria-label="{escape(chart.title)}"></div>'
        f"<figcaption>{note}Bands and bars are 95% intervals over seeds; those of a planner or a solved "
        f"equilibrium are over games. Table: {chart.table}.csv, pictures: "
        f"{chart.name}.png and .svg.</figcaption></figure>"
    )


def _table(name: str, table: Table) -> str:
    """Numbers to four digits here; the files have all of them."""
    columns = list(dict.fromkeys(key for row in table for key in row))
    heads = "".join(f"<th>{escape(column.replace('_', ' '))}</th>" for column in columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(_text(row.get(column)))}</td>" for column in columns) + "</tr>" for row in table
    )
    return (
        f"<details><summary>{escape(name)}.csv: {len(table)} rows</summary><div class='wide'>"
        f'<table class="sortable"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div></details>'
    )


def _text(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _settings(settings: Mapping[str, str]) -> str:
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in settings.items())
    return f'<table class="settings">{rows}</table>'


def _traces(chart: Chart) -> list[dict[str, Any]]:
    points = chart.kind == "points"
    uneven = chart.ticks is not None
    return [trace for line in chart.lines for trace in ([_bars(line)] if points else _band(line, uneven=uneven))]


def _bars(line: Line) -> dict[str, Any]:
    """Points with error bars."""
    trace: dict[str, Any] = {
        "type": "scatter", "mode": "markers", "name": line.name, "x": line.x, "y": line.y,
        "marker": {"color": line.colour, "size": 9},
    }  # fmt: skip
    if line.low is not None and line.high is not None:
        trace["error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": [high - y for high, y in zip(line.high, line.y, strict=True)],
            "arrayminus": [y - low for low, y in zip(line.low, line.y, strict=True)],
        }
    return trace


def _band(line: Line, *, uneven: bool) -> list[dict[str, Any]]:
    """A line, and behind it its interval."""
    across = _spaced(line.x) if uneven else line.x
    drawn = {
        "type": "scatter", "mode": "lines", "name": line.name, "x": across, "y": line.y, "legendgroup": line.name,
        "line": {"color": line.colour, "dash": DASHES[line.style]},
        **({"text": [f"{x:g}" for x in line.x], "hovertemplate": "(%{text}, %{y})"} if uneven else {}),
    }  # fmt: skip
    if line.low is None or line.high is None:
        return [drawn]
    band = {
        "type": "scatter", "mode": "lines", "x": [*across, *across[::-1]], "y": [*line.high, *line.low[::-1]],
        "fill": "toself", "fillcolor": f"{line.colour}30", "line": {"width": 0}, "hoverinfo": "skip",
        "showlegend": False, "legendgroup": line.name,
    }  # fmt: skip
    return [band, drawn]


def _spaced(values: Sequence[float]) -> list[float]:
    """From 0 over 1 to tens on one axis: log2(1 + x)."""
    return [math.log2(1 + value) for value in values]


def _layout(chart: Chart) -> dict[str, Any]:
    across: dict[str, Any] = {"title": {"text": chart.x}, "automargin": True}
    if chart.ticks is not None:
        labels = [f"{tick:g}" for tick in chart.ticks]
        across |= {"tickmode": "array", "tickvals": _spaced(chart.ticks), "ticktext": labels}
    return {
        "title": {"text": chart.title, "font": {"size": 16}},
        "xaxis": across,
        "yaxis": {"title": {"text": chart.y}, "automargin": True},
        "legend": {"orientation": "h", "y": -0.28},
        "margin": {"l": 60, "r": 20, "t": 50, "b": 40},
        "template": "none",
        "showlegend": chart.kind == "lines" or len(chart.lines[0].x) > 1,
        "shapes": [
            {
                "type": "line",
                "x0": mark,
                "x1": mark,
                "yref": "paper",
                "y0": 0,
                "y1": 1,
                "line": {"dash": "dash", "width": 1},
            }
            for mark in chart.marks
        ],
    }
