"""The one look of our tables, and intervals as people read them."""

from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPED = 1000
"""Columns where nobody looks: what goes into a file or another program is never cut."""


def output() -> Console:
    """Where results are printed: as wide as the terminal, or as they need.

    Plain: a name may hold [brackets] or :colons: that would pass for markup.
    """
    return Console(width=None if Console().is_terminal else PIPED, markup=False, emoji=False)


def plain_table(*heads: str | Text, left: int = 0, **options: Any) -> Table:
    """A table without frames. The first `left` columns are text, which may wrap; the others hold numbers."""
    table = Table(box=SIMPLE, padding=(0, 0, 0, 1), **options)
    for place, head in enumerate(heads):
        table.add_column(head, justify="left" if place < left else "right", no_wrap=place >= left)
    return table


def span(interval: dict[str, float | None], spec: str) -> str:
    """Mean and interval; one seed has none."""
    low, high = interval["low"], interval["high"]
    around = "" if low is None or high is None or low == high else f" ({low:{spec}} to {high:{spec}})"
    return f"{number(interval['mean'], spec)}{around}"


def around(interval: dict[str, float | None], spec: str) -> str:
    """Mean and half of the interval, where there is little room; one seed has none."""
    low, high = interval["low"], interval["high"]
    width = "" if low is None or high is None or low == high else f" ± {(high - low) / 2:{spec.lstrip('+')}}"
    return f"{number(interval['mean'], spec)}{width}"


def number(value: float | None, spec: str) -> str:
    """A number, or a dash where there is none."""
    return "–" if value is None else f"{value:{spec}}"
