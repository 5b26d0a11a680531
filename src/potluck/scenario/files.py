"""Scenarios as TOML files: read with care, written with the meaning of every field beside it."""

import tomllib
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from potluck.errors import PotluckError
from potluck.scenario.description import Normal, Scenario

__all__ = ["load", "parse", "render"]

LARGEST_FILE = 4_000_000
"""Bytes; a matrix for a thousand silos fits, a mistaken data set does not."""

FORMS = {"constant", "list", "normal", "matrix", "uniform"}
"""Names of a union's branches: part of pydantic's path to a field, not of a person's."""


def load(path: Path) -> Scenario:
    """Read a scenario file."""
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise PotluckError(
                f"{path}: a scenario is a small TOML file, this one has {size / 1e6:.1f} MB; check the name"
            )
        text = path.read_bytes().decode()
    except OSError as fault:
        reason = (fault.strerror or str(fault)).lower()
        raise PotluckError(f"{path}: {reason}; start one with `potluck scenario init {path}`") from None
    except UnicodeDecodeError:
        raise PotluckError(f"{path}: not a TOML file (it is not UTF-8 text)") from None
    return parse(text, str(path))


def parse(text: str, origin: str = "scenario") -> Scenario:
    """Turn TOML text into a scenario; `origin` is named in what goes wrong."""
    try:
        return Scenario.model_validate(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, RecursionError) as fault:
        reason = "it is nested too deeply" if isinstance(fault, RecursionError) else str(fault)
        raise PotluckError(f"{origin}: not a TOML file: {reason}") from None
    except ValidationError as fault:
        # A misspelt name shows up twice, as unknown and as missing: the first of these helps.
        faults = sorted(fault.errors(), key=lambda error: error["type"] != "extra_forbidden")
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise PotluckError(f"{origin}: {_explain(faults[0])}{more}") from None


def render(scenario: Scenario) -> str:
    """Write a scenario as TOML that explains itself; `parse` reads it back to the same scenario."""
    return "\n".join(_section(scenario, ())) + "\n"


def _section(part: BaseModel, path: tuple[str, ...]) -> list[str]:
    lines = [f"# {(type(part).__doc__ or '').splitlines()[0]}"]
    if path:
        lines = ["", *lines, f"[{'.'.join(path)}]"]
    sections: list[str] = []
    plain = part.model_dump(mode="json")
    for name, field in type(part).model_fields.items():
        value = getattr(part, name)
        if isinstance(value, BaseModel) and not path:
            sections += _section(value, (*path, name))
        else:
            lines += [f"# {field.description}", f"{name} = {_inline(plain[name])}"]
    return lines + sections


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_inline(entry)}" for key, entry in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_inline(entry) for entry in value) + "]"
    return tomli_w.dumps({"value": value}).removeprefix("value = ").strip()


def _explain(fault: ErrorDetails) -> str:
    """Say in one line which field is wrong, what it must be, what was found and what the field means."""
    field = ".".join(str(step) for step in fault["loc"] if step not in FORMS)
    known, meaning = _place(fault["loc"])
    found = repr(fault["input"])
    found = "got " + (found if len(found) <= 60 else found[:57] + "...") + (f" ({meaning})" if meaning else "")
    context = fault.get("ctx", {})
    match fault["type"]:
        case "missing":
            return f"{field} is missing" + (f" ({meaning})" if meaning else "")
        case "extra_forbidden":
            return f"{field} is not a known key; known here: {', '.join(known)}"
        case "greater_than":
            return f"{field} must be positive, {found}"
        case "greater_than_equal":
            return f"{field} must be at least {context['ge']:g}, {found}"
        case "less_than_equal":
            return f"{field} must be at most {context['le']:g}, {found}"
        case "less_than":
            return f"{field} must be below {context['lt']:g}, {found}"
        case "finite_number":
            return f"{field} must be a finite number, {found}"
        case "float_type" | "int_type" | "int_from_float":
            return f"{field} must be {'a number' if 'float_' in fault['type'] else 'a whole number'}, {found}"
        case "tuple_type":
            return f"{field} must be a list, {found}"
        case "literal_error":
            return f"{field} must be {context['expected']}, {found}"
        case "value_error":
            message = str(context["error"])
            return f"{field}{' ' if message.startswith('must') else '.'}{message}".removeprefix(".")
        case "model_type" | "model_attributes_type":
            return f"{field} must be a table such as [{field}], {found}"
        case _:
            return f"{field}: {fault['msg'].lower()}, {found}"


def _place(path: tuple[int | str, ...]) -> tuple[list[str], str | None]:
    """Names known where the path ends, and what the innermost described field on it means."""
    part: type[BaseModel] = Scenario
    meaning = None
    for step in path:
        if step == "normal":
            part = Normal
        elif field := part.model_fields.get(str(step)):
            meaning = field.description or meaning
            if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
                part, meaning = field.annotation, None
    return list(part.model_fields), meaning
