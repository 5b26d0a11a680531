"""A fault that pydantic found, as one line for the person who wrote the value."""

from typing import Any, get_args

from pydantic import BaseModel, Tag, ValidationError
from pydantic_core import ErrorDetails

MUST_BE = {
    "greater_than": "positive",
    "greater_than_equal": "at least {ge:g}",
    "less_than_equal": "at most {le:g}",
    "less_than": "below {lt:g}",
    "finite_number": "a finite number",
    "float_type": "a number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "string_type": "text in quotes",
    "tuple_type": "a list",
    "literal_error": "{expected}",
    "model_type": "a table such as [{field}]",
    "model_attributes_type": "a table such as [{field}]",
}
"""What a value must be, by the kind of pydantic's complaint."""


def first_fault(fault: ValidationError, root: type[BaseModel]) -> str:
    """The fault that helps most, and how many more there are.

    A misspelt name shows up twice, as unknown and as missing: the first of these helps.
    """
    faults = sorted(fault.errors(), key=lambda error: error["type"] != "extra_forbidden")
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{explained(faults[0], root)}{more}"


def explained(fault: ErrorDetails, root: type[BaseModel]) -> str:
    """Say in one line which field is wrong, what it must be, what was found and what the field means."""
    field, known, meaning = place(fault["loc"], root)
    found = f"got {short(fault['input'])}" + (f" ({meaning})" if meaning else "")
    context = fault.get("ctx", {})
    match fault["type"]:
        case "missing":
            return f"{field} is missing" + (f" ({meaning})" if meaning else "")
        case "extra_forbidden":
            return f"{field} is not a known key; known here: {', '.join(known)}"
        case "union_tag_invalid":
            return f"{field}.source must be one of {context['expected_tags']}, got {context['tag']!r}"
        case "value_error":
            message = str(context["error"])
            return f"{field}{' ' if message.startswith('must') else '.'}{message}".removeprefix(".")
        case kind if kind in MUST_BE:
            return f"{field} must be {MUST_BE[kind].format(field=field, **context)}, {found}"
        case _:
            return f"{field}: {fault['msg'].lower()}, {found}"


def short(found: Any) -> str:
    """What was found, as it would be written, if that is short."""
    if isinstance(found, dict | list):
        return "a table" if isinstance(found, dict) else f"a list of {len(found)}"
    text = repr(found) if isinstance(found, str | int | float) else str(found)
    return text if len(text) <= 60 else text[:57] + "..."


def place(path: tuple[int | str, ...], root: type[BaseModel]) -> tuple[str, list[str], str | None]:
    """The field as a person writes it, names known where it is, and what the innermost described field on it means.

    Pydantic's path names the branch of a union after the union's field; a person does not.
    """
    part, meaning = root, None
    written: list[str] = []
    branches: dict[int | str, type[BaseModel] | None] = {}
    for step in path:
        if step in branches:
            part, branches = branches[step] or part, {}
            continue
        written.append(str(step))
        branches = {}
        if field := part.model_fields.get(str(step)):
            meaning, branches = field.description or meaning, tagged(field.annotation)
            if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
                part, meaning = field.annotation, None
    return ".".join(written), list(part.model_fields), meaning


def tagged(annotation: Any) -> dict[int | str, type[BaseModel] | None]:
    """The tags that tell a union's branches apart, and the table that each is, if it is one."""
    found: dict[int | str, type[BaseModel] | None] = {}
    for choice in get_args(annotation):
        kind, *marks = get_args(choice) or (None,)
        for mark in marks:
            if isinstance(mark, Tag):
                found[mark.tag] = kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None
    return found
