"""The game as PettingZoo's own tests and other people's learners meet it."""

import copy
import importlib
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pettingzoo
import pytest
from gymnasium.spaces import Box
from numpy.testing import assert_array_equal
from pettingzoo.test import (
    api_test,
    max_cycles_test,
    parallel_api_test,
    parallel_seed_test,
    render_test,
    seed_test,
    state_test,
)

from potluck.errors import PotluckError
from potluck.game import pettingzoo as face
from potluck.game.pettingzoo import SiloEnv, checked_seed, env, parallel_env
from potluck.scenario import Scenario, mechanism_of, preset
from potluck.scenario.description import PAPER_OBSERVATION
from tests.game.conftest import DIGITS, DRAWN, REAL, THREE, by_hand

# Nobody has seen anything before the first slot; PettingZoo suspects a mistake.
zeros_at_first = pytest.mark.filterwarnings("ignore:Observation numpy array is all zeros:UserWarning")
ALL = (*PAPER_OBSERVATION, "own_contribution", "own_samples", "slot")
PRINTED = mechanism_of("redistribution", intensity=6.0, schedule="printed")
PAIRS = ((0.0, 0.1, 0.1), (0.1, 0.0, 0.1), (0.1, 0.1, 0.0))
REAL_GAME = by_hand(silos=DRAWN, precision=REAL, horizon=4)


def test_pettingzoo_accepts_the_parallel_game() -> None:
    parallel_api_test(parallel_env("paper"), num_cycles=100)


@zeros_at_first
def test_pettingzoo_accepts_the_game_turn_by_turn() -> None:
    api_test(env("paper"), num_cycles=100)


def test_pettingzoo_finds_seeds_honoured() -> None:
    parallel_seed_test(parallel_env, num_cycles=30)
    seed_test(env, num_cycles=30)


def test_pettingzoo_finds_max_cycles_honoured() -> None:
    max_cycles_test(face)


def test_pettingzoo_finds_it_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    render_test(env)  # type: ignore[arg-type]
    assert "slot 1/30: P 0." in capsys.readouterr().out


def test_pettingzoo_accepts_the_state_for_centralised_critics() -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="State numpy array is all zeros", category=UserWarning)
        state_test(env("paper"), parallel_env("paper"), num_cycles=3)


def actions(game: SiloEnv, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Corners and what is between them."""
    shares = np.clip(rng.uniform(-0.2, 1.2, len(game.agents)), 0, 1).astype(np.float32)
    return {name: share[None] for name, share in zip(game.agents, shares, strict=True)}


def episode(game: SiloEnv, seed: int | None, plays: int = 0) -> list[Any]:
    """Everything that a whole game says, from reset to its end."""
    rng = np.random.default_rng(plays)
    said: list[Any] = [game.reset(seed=seed)]
    while game.agents:
        said.append(game.step(actions(game, rng)))
    return said


def flat(said: Any) -> list[Any]:
    """Every array and number in it, with its name, in order."""
    if isinstance(said, dict):
        return [entry for name, part in said.items() for entry in [name, *flat(part)]]
    return [entry for part in said for entry in flat(part)] if isinstance(said, list | tuple) else [said]


def same(one: list[Any], other: list[Any]) -> bool:
    pairs = zip(flat(one), flat(other), strict=True)
    return all(np.array_equal(a, b) and type(a) is type(b) for a, b in pairs)


@pytest.mark.parametrize("scenario", [preset("paper"), REAL_GAME], ids=["curve", "fedavg"])
def test_whole_episodes_are_the_same_bits_for_the_same_seed_and_others_for_another(scenario: Scenario) -> None:
    first, second = (parallel_env(scenario, data=DIGITS) for _ in range(2))
    begun = [episode(first, seed=7), episode(first, seed=None, plays=1)]
    assert len(begun[0]) == scenario.horizon + 1
    episode(second, seed=8)
    again = [episode(second, seed=7), episode(second, seed=None, plays=1)]
    assert same(begun, again)
    # The next game of a seed is another one, and so is that of another seed.
    assert not same(episode(first, seed=7), episode(first, seed=None))
    assert not same(episode(first, seed=7), episode(first, seed=8))


def test_the_seed_of_the_run_draws_the_silos_and_the_order_of_games() -> None:
    first, again, other = (parallel_env("paper", seed=seed) for seed in (0, None, 1))
    assert same(episode(first, None), episode(again, None))
    assert not same([first.reset(seed=5)], [other.reset(seed=5)])
    assert same(episode(other, 3), episode(parallel_env("paper", seed=1), 3))


@pytest.mark.parametrize(
    "scenario",
    [
        preset("lineage").model_copy(update={"horizon": 12, "observation": ALL}),
        by_hand(observation=ALL, mechanism=PRINTED),
        by_hand(observation=ALL, mechanism=mechanism_of("none")),
        by_hand(mechanism=mechanism_of("redistribution", intensity=PAIRS)),
        by_hand(silos=DRAWN.model_copy(update={"redraw": ("communication", "samples")}), observation=ALL),
        by_hand(silos=DRAWN.model_copy(update={"drawn": "episode"}), observation=ALL),
        REAL_GAME.model_copy(update={"observation": ALL}),
    ],
    ids=["lineage", "printed", "none", "matrix", "redraw", "episode", "fedavg"],
)
def test_every_observation_is_inside_its_space(scenario: Scenario) -> None:
    game = parallel_env(scenario, data=DIGITS)
    rng = np.random.default_rng(0)
    for seed in range(3):
        seen, _ = game.reset(seed=seed)
        while game.agents:
            for name, observation in seen.items():
                assert game.observation_space(name).contains(observation), observation
            assert game.state_space.contains(game.state())
            seen = game.step(actions(game, rng))[0]
        for name, observation in seen.items():
            assert game.observation_space(name).contains(observation), observation


def test_spaces_are_as_narrow_as_the_scenario_makes_them() -> None:
    game = parallel_env(by_hand(observation=ALL))
    space = game.observation_space("silo_1")
    # two others' d, own C, α, P and own d of each slot; own |D|; share of the game that is over
    assert_array_equal(space.high, np.array([*[1, 1, 0.6, 6, 1, 1] * 2, 200, 1], np.float32))
    assert_array_equal(space.low, np.array([*[0] * 12, 1, 0], np.float32))
    assert game.action_space("silo_1") == Box(0.0, 1.0, (1,), np.float32)
    printed = parallel_env(by_hand(mechanism=PRINTED)).observation_space("silo_0")
    assert_array_equal(np.flatnonzero(np.isinf(printed.high)), [3, 8])
    assert_array_equal(np.flatnonzero(np.isinf(printed.low)), [3, 8])


def test_the_last_slot_terminates_and_fewer_cycles_truncate() -> None:
    shares = {f"silo_{n}": 0.5 for n in range(3)}
    for most, length, ended in ((None, 5, True), (5, 5, True), (9, 5, True), (4, 4, False)):
        game = parallel_env(by_hand(), max_cycles=most)
        game.reset()
        for slot in range(1, length + 1):
            _, _, terminations, truncations, _ = game.step(shares)
            over = slot == length
            assert set(terminations.values()) == {over and ended}
            assert set(truncations.values()) == {over and not ended}
        assert game.agents == []
        with pytest.raises(PotluckError, match="the game is over"):
            game.step(shares)


def test_rewards_and_infos_are_the_silos_own_figures() -> None:
    game = parallel_env(by_hand())
    _, infos = game.reset()
    assert infos == {"silo_0": {"samples": 100.0}, "silo_1": {"samples": 200.0}, "silo_2": {"samples": 300.0}}
    _, rewards, _, _, infos = game.step({"silo_0": 1.0, "silo_1": 0.5, "silo_2": 0.0})
    parts = {"revenue": 506.6667, "energy": 0.0, "communication": 0.7, "transfer": -9.0}
    public = {"precision": 0.9 - 0.8 / 3, "signal": 6.0}
    assert infos["silo_2"] == pytest.approx(parts | {"samples": 300.0} | public)
    assert rewards["silo_2"] == pytest.approx(506.6667 - 0.7 - 9)
    assert all(type(number) is float for own in [rewards, *infos.values()] for number in own.values())


def test_the_terms_of_others_leave_no_trace_in_what_a_silo_is_told() -> None:
    changed = {"profit": (1000.0, 9.0, 8.0), "energy": (1.0, 0.0, 7.0), "communication": (0.4, 5.0, 6.0)}
    told = [
        [
            [part["silo_0"] for part in answer]
            for answer in episode(parallel_env(by_hand(silos=THREE.model_copy(update=terms), observation=ALL)), 0)
        ]
        for terms in ({}, changed)
    ]
    assert same(told[0], told[1])


@pytest.mark.parametrize("bad", [np.nan, 1.001, -0.1, np.inf, "much", None, [0.1, 0.2], []])
def test_a_bad_contribution_is_refused_by_the_name_of_its_silo(bad: Any) -> None:
    game = parallel_env(by_hand())
    game.reset(seed=0)
    good = dict.fromkeys(game.agents, 0.5)
    with pytest.raises(PotluckError, match=r"silo_1 must contribute one number in \[0, 1\]"):
        game.step(good | {"silo_1": bad})
    # Nothing was played.
    after = game.step(good)
    game.reset(seed=0)
    assert same([after], [game.step(good)])


def test_silos_too_few_or_too_many_are_named() -> None:
    game = parallel_env(by_hand())
    with pytest.raises(PotluckError, match="reset"):
        game.step({})
    game.reset()
    with pytest.raises(PotluckError, match="silo_2 has no action"):
        game.step({"silo_0": 0.5, "silo_1": 0.5})
    with pytest.raises(PotluckError, match="silo_3 is no silo of this game: they are silo_0 … silo_2"):
        game.step({f"silo_{n}": 0.5 for n in range(4)})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scenario": "papre"}, "preset must be one of paper, dilemma"),
        ({"render_mode": "rgb_array"}, "render_mode must be human, ansi or None"),
        ({"max_cycles": 0}, "max_cycles must be 1 or more, got 0"),
        ({"seed": -1}, "seed must be a whole number from 0"),
        ({"seed": 10**400}, "seed must be a whole number from 0"),
    ],
)
def test_a_mistake_in_making_it_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(PotluckError, match=message):
        parallel_env(**options)


def test_a_slot_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    shares = {"silo_0": 1.0, "silo_1": 0.5, "silo_2": 0.0}
    game = parallel_env(by_hand(), render_mode="ansi")
    game.reset()
    assert game.render() == "slot 0/5: nothing played yet"
    game.step(shares)
    line = "slot 1/5: P 0.6333, signal 6.000, d 1.000 0.500 0.000"
    assert game.render() == line
    assert capsys.readouterr().out == ""
    shown = parallel_env(by_hand(), render_mode="human")
    shown.reset()
    shown.step(shares)
    assert capsys.readouterr().out == line + "\n"
    assert shown.render() is None


@pytest.mark.parametrize("seed", [1.5, True, "1", 2**32, None, np.float32(1)])
def test_a_seed_that_is_none_is_refused(seed: Any) -> None:
    with pytest.raises(PotluckError, match=r"seed must be a whole number from 0 to 4294967295, got "):
        checked_seed(seed)
    assert checked_seed(np.int64(7)) == 7


@pytest.mark.parametrize("action", [np.ma.masked_array([0.5], [True]), np.ma.masked, 10**400, None, "½"])
def test_what_is_no_share_is_refused(action: Any) -> None:
    game = parallel_env(by_hand())
    game.reset()
    with pytest.raises(PotluckError, match=r"silo_1 must contribute one number in \[0, 1\]"):
        game.step({"silo_0": 1.0, "silo_1": action, "silo_2": 0.0})


def test_render_without_a_mode_says_so() -> None:
    game = parallel_env(by_hand())
    game.reset()
    with pytest.warns(UserWarning, match="without a render_mode"):
        assert game.render() is None


def test_pettingzoo_makes_it_by_its_id() -> None:
    made = pettingzoo.make("parallel", "potluck_v0", scenario=by_hand(), max_cycles=2)
    assert isinstance(made, SiloEnv)
    assert made.max_cycles == 2
    assert str(made) == made.metadata["name"] == face.ID
    assert made.possible_agents == ["silo_0", "silo_1", "silo_2"]
    assert isinstance(pettingzoo.make("aec", "potluck_v0", scenario=by_hand()), pettingzoo.AECEnv)


def test_a_game_is_copied_and_pickled_as_it_stands() -> None:
    game = parallel_env(by_hand(silos=DRAWN))
    game.reset(seed=0)
    shares = dict.fromkeys(game.agents, 0.5)
    game.step(shares)
    copies = [copy.deepcopy(game), pickle.loads(pickle.dumps(game))]
    after = game.step(shares)
    for other in copies:
        assert same([after], [other.step(shares)])


def test_the_game_itself_does_not_need_pettingzoo() -> None:
    program = "import sys, potluck.game; sys.exit('pettingzoo' in sys.modules or 'gymnasium' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_without_pettingzoo_its_face_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pettingzoo", None)
    monkeypatch.delitem(sys.modules, face.__name__)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'potluck-fl\[pettingzoo\]'"):
        importlib.import_module(face.__name__)


def test_what_the_documentation_shows_runs() -> None:
    text = (Path(__file__).parents[2] / "docs" / "game.md").read_text(encoding="utf-8")
    programs = [part.split("```")[0] for part in text.split("```python\n")[1:]]
    assert len(programs) == 4
    for program in programs:
        exec(program, {})
