"""What was found as values that JSON can carry."""

import dataclasses
from typing import Any

import numpy as np


def plain_values(tree: Any) -> Any:
    """Dataclasses as dictionaries, arrays as numbers and lists; what is not finite as null."""
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        return {field.name: plain_values(getattr(tree, field.name)) for field in dataclasses.fields(tree)}
    if isinstance(tree, dict):
        return {key: plain_values(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [plain_values(value) for value in tree]
    if tree is None or isinstance(tree, str | bool | int):
        return tree
    numbers = np.asarray(tree)
    if numbers.ndim:
        return [plain_values(entry) for entry in numbers]
    return float(numbers) if np.isfinite(numbers) else None
