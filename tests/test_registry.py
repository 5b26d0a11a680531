"""Families are open: by one call, or by an entry point of another package."""

import subprocess
import sys
from pathlib import Path

import jax
import pytest

from potluck.errors import PotluckError
from potluck.registry import HOMES, Registry, family


def test_a_member_registered_by_a_call_is_found_by_its_name() -> None:
    tools: Registry[int] = Registry("tool", {"saw": 1})
    tools.register("axe", 2)
    assert dict(tools) == {"saw": 1, "axe": 2}
    assert "axe" in tools
    assert len(tools) == 2
    tools.register("axe", 3)
    assert tools["axe"] == 3


def test_what_the_package_ships_keeps_its_name() -> None:
    tools: Registry[int] = Registry("tool", {"saw": 1})
    with pytest.raises(PotluckError, match=r"^tool: 'saw' is one of Potluck's own; choose another name"):
        tools.register("saw", 2)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(PotluckError, match=r"^tool must be one of saw, axe, got 'hammer'"):
        Registry("tool", {"saw": 1, "axe": 2})["hammer"]


@pytest.mark.parametrize("name", HOMES)
def test_every_family_has_a_home(name: str) -> None:
    assert family(name).family == name
    assert len(family(name)) > 0


PLUGIN = """
import jax.numpy as jnp
from potluck.mechanisms import Kind, MechanismConfig, Redistribution
from potluck.game import ObservationField

class Gentle(MechanismConfig):
    kind: Kind = "gentle"
    def build(self, declared):
        return Redistribution(jnp.asarray(1.0))

HALF = ObservationField(lambda view: view.record.precision[:, None] / 2)
"""
PROGRAM = """
from potluck.game import game
from potluck.scenario import parse, preset, render
text = render(preset("paper"))
start, _, rest = text.partition("[mechanism]")
start = start.replace('["others"', '["half", "others"')
scenario = parse(start + '[mechanism]\\nkind = "gentle"\\n\\n# Precision' + rest.partition("# Precision")[2])
played = game(scenario)
print(scenario.mechanism.kind, float(played.mechanism.intensity), played.observation_size)
"""


def test_an_entry_point_of_another_package_is_a_member(tmp_path: Path) -> None:
    info = tmp_path / "plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n")
    points = "[potluck.mechanism]\ngentle = plugin:Gentle\n\n[potluck.observation]\nhalf = plugin:HALF\n"
    (info / "entry_points.txt").write_text(points)
    (tmp_path / "plugin.py").write_text(PLUGIN)
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{PROGRAM}"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert answer.stdout.split() == ["gentle", "1.0", "49"], answer.stderr


BROKEN = """
[potluck.mechanism]
lost = nowhere_at_all:Config
[potluck.agent]
odd = json:dumps
"""


@pytest.mark.slow
def test_a_plugin_that_cannot_be_loaded_is_named_and_the_others_still_work(tmp_path: Path) -> None:
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(BROKEN)

    def potluck(*words: str) -> subprocess.CompletedProcess[str]:
        program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from potluck.cli import main; main()"
        return subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)

    listed = potluck("list", "--json")
    assert listed.returncode == 0, listed.stderr
    assert "mechanism: 'lost' of the package broken cannot be loaded (nowhere_at_all:Config" in listed.stdout
    assert "redistribution" in listed.stdout
    refused = potluck("train", "--agent", "odd", "--slots", "1")
    assert refused.returncode == 2
    assert "agent: 'odd' of the package broken cannot be loaded" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_a_member_of_another_kind_is_refused() -> None:
    tools: Registry[int] = Registry("tool", {"saw": 1}, int)
    with pytest.raises(PotluckError, match=r"^tool: 'axe' must be made by int, got str"):
        tools.register("axe", "sharp")  # type: ignore[arg-type]


def test_a_name_registered_anew_is_compiled_anew() -> None:
    tools: Registry[float] = Registry("tool", {})

    @jax.jit
    def use(x: jax.Array) -> jax.Array:
        return x * tools["axe"]

    for weight in (2.0, 7.0):
        tools.register("axe", weight)
        assert use(jax.numpy.ones(())) == weight
    assert tools.get("saw") is None
