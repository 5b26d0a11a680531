"""Scenarios as TOML files: read with care, written with the meaning of every field beside it."""

import re
import tomllib
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from potluck.errors import PotluckError, reason
from potluck.registry import family
from potluck.scenario.description import Scenario
from potluck.scenario.explain import first_fault

LARGEST_FILE = 4_000_000
"""Bytes; a matrix for a thousand silos fits, a mistaken data set does not."""
KEY = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
TOO_DEEP = re.compile(rf"""(?<![\w"'-]){KEY}(?:[ \t]*+\.[ \t]*+{KEY}){{8}}""")
"""A key of nine parts or more; a parser's memory grows with their square, and a scenario has three."""


def load(path: str | Path) -> Scenario:
    """Read a scenario file; of a large one, or an endless one, no more than shows that it is no scenario."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        raise PotluckError(f"{path}: no such file; start one with `potluck scenario init {path}`") from None
    except OSError as fault:
        raise PotluckError(f"{path}: {reason(fault)}; name a scenario file") from None
    if len(content) > LARGEST_FILE:
        raise PotluckError(
            f"{path}: larger than {LARGEST_FILE / 1e6:g} MB; a scenario is a small TOML file, check the name"
        )
    try:
        return parse(content.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError:
        raise PotluckError(f"{path}: not a TOML file (it is not UTF-8 text)") from None


def parse(text: str, origin: str = "scenario") -> Scenario:
    """Turn TOML text into a scenario; `origin` is named in what goes wrong."""
    try:
        if TOO_DEEP.search(text):
            raise RecursionError
        return Scenario.model_validate(tomllib.loads(text))
    except RecursionError:
        raise PotluckError(f"{origin}: not a TOML file that can be read: it is nested too deeply") from None
    except ValidationError as fault:
        raise PotluckError(f"{origin}: {first_fault(fault, Scenario)}") from None
    except ValueError as fault:
        raise PotluckError(f"{origin}: not a TOML file that can be read: {fault}") from None


def render(scenario: Scenario) -> str:
    """Write a scenario as TOML that explains itself; `parse` reads it back to the same scenario."""
    return "\n".join(_section(scenario, ())) + "\n"


def _section(part: BaseModel, path: tuple[str, ...]) -> list[str]:
    lines = [f"# {line}" for line in (type(part).__doc__ or "").splitlines()[:1]]
    if path:
        lines = ["", *lines, f"[{'.'.join(path)}]"]
    sections: list[str] = []
    plain = part.model_dump(mode="json")
    for name, field in type(part).model_fields.items():
        value = getattr(part, name)
        if isinstance(value, BaseModel) and not path:
            sections += _section(value, (*path, name))
        else:
            lines += [f"# {_meaning(field)}"] if field.description else []
            lines += [f"# {name} is left out" if plain[name] is None else f"{name} = {_inline(plain[name])}"]
    return lines + sections


def _meaning(field: FieldInfo) -> str:
    """What the field says, and the names that it chooses from."""
    extra = field.json_schema_extra
    names = ", ".join(family(str(extra["family"]))) if isinstance(extra, dict) else ""
    return f"{field.description}: {names}" if names else str(field.description)


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_inline(entry)}" for key, entry in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_inline(entry) for entry in value) + "]"
    return tomli_w.dumps({"value": value}).removeprefix("value = ").strip()
