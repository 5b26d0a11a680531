"""What commands share: where a scenario comes from, numbers from text, and JAX set up once."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

from potluck.errors import PotluckError

if TYPE_CHECKING:
    from potluck.scenario import Scenario


def chosen_scenario(path: Path | None, name: str | None) -> "Scenario":
    """Read the scenario from a file or take a preset; `paper` when neither is named."""
    from potluck.scenario import load, preset

    if path is not None and name is not None:
        raise PotluckError(f"{name} and the file {path} exclude each other; name one of them", field="preset")
    if path is not None:
        return load(path)
    return preset("paper" if name is None else name)


def numbers(text: str, field: str) -> list[float]:
    """Finite numbers separated by commas, as an option was given them."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise PotluckError(
            f"must be numbers separated by commas, such as 1,0.5,0.5,0.1, got {text!r}", field=field
        ) from None
    if not all(math.isfinite(value) for value in values):
        raise PotluckError(f"must be finite numbers, got {text!r}", field=field)
    return values


def whole_numbers(text: str, field: str, least: int = 1) -> list[int]:
    """Whole numbers separated by commas, each `least` or more."""
    values = numbers(text, field)
    if any(value != int(value) or value < least for value in values):
        raise PotluckError(f"must be whole numbers of {least} or more, got {text!r}", field=field)
    return [int(value) for value in values]


def start_jax(double: bool) -> None:
    """Set JAX up for a command: double precision where theory wants it, compiled programs kept for the next call."""
    import jax

    from potluck.federation.data import cache_dir

    jax.config.update("jax_enable_x64", double)
    jax.config.update("jax_compilation_cache_dir", str(cache_dir() / "compiled"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def start_cores() -> None:
    """Set JAX up for a command that trains: single precision, every core a device."""
    from potluck.devices import use_cores

    start_jax(double=False)
    use_cores()
