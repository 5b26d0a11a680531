"""Scenarios as TOML files: read with care, written with the meaning of every field beside it."""

import tomllib
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from potluck.errors import PotluckError
from potluck.scenario.description import CurvePrecision, FedAvgPrecision, Normal, Scenario

__all__ = ["load", "parse", "render"]

LARGEST_FILE = 4_000_000
"""Bytes; a matrix for a thousand silos fits, a mistaken data set does not."""

FORMS = {"constant", "list", "normal", "matrix", "uniform", "curve", "fedavg"}
"""Names of a union's branches: part of pydantic's path to a field, not of a person's."""


def load(path: Path) -> Scenario:
    """Read a scenario file; of a large one, or an endless one, no more than shows that it is no scenario."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        raise PotluckError(f"{path}: no such file; start one with `potluck scenario init {path}`") from None
    except OSError as fault:
        raise PotluckError(f"{path}: {(fault.strerror or str(fault)).lower()}; name a scenario file") from None
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
        return Scenario.model_validate(tomllib.loads(text))
    except RecursionError:
        raise PotluckError(f"{origin}: not a TOML file that can be read: it is nested too deeply") from None
    except ValidationError as fault:
        # A misspelt name shows up twice, as unknown and as missing: the first of these helps.
        faults = sorted(fault.errors(), key=lambda error: error["type"] != "extra_forbidden")
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise PotluckError(f"{origin}: {_explain(faults[0])}{more}") from None
    except ValueError as fault:
        raise PotluckError(f"{origin}: not a TOML file that can be read: {fault}") from None


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
    found = f"got {_short(fault['input'])}" + (f" ({meaning})" if meaning else "")
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
        case "bool_type":
            return f"{field} must be true or false, {found}"
        case "string_type":
            return f"{field} must be text in quotes, {found}"
        case "tuple_type":
            return f"{field} must be a list, {found}"
        case "literal_error":
            return f"{field} must be {context['expected']}, {found}"
        case "union_tag_invalid":
            return f"{field}.source must be one of {context['expected_tags']}, got {context['tag']!r}"
        case "value_error":
            message = str(context["error"])
            return f"{field}{' ' if message.startswith('must') else '.'}{message}".removeprefix(".")
        case "model_type" | "model_attributes_type":
            return f"{field} must be a table such as [{field}], {found}"
        case _:
            return f"{field}: {fault['msg'].lower()}, {found}"


def _short(found: Any) -> str:
    """What was found, as it would be written, if that is short."""
    if isinstance(found, dict | list):
        return "a table" if isinstance(found, dict) else f"a list of {len(found)}"
    text = repr(found) if isinstance(found, str | int | float) else str(found)
    return text if len(text) <= 60 else text[:57] + "..."


def _place(path: tuple[int | str, ...]) -> tuple[list[str], str | None]:
    """Names known where the path ends, and what the innermost described field on it means."""
    part: type[BaseModel] = Scenario
    meaning = None
    branches: dict[int | str, type[BaseModel]] = {"normal": Normal, "curve": CurvePrecision, "fedavg": FedAvgPrecision}
    for step in path:
        if step in branches:
            part = branches[step]
        elif field := part.model_fields.get(str(step)):
            meaning = field.description or meaning
            if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
                part, meaning = field.annotation, None
    return list(part.model_fields), meaning
