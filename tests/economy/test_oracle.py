"""An outside oracle: Gambit, another group's program, on the same games with contributions from a grid."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from potluck.economy import StageGame, nash, payoffs
from potluck.scenario import preset
from potluck.studies.stage import stage_game

pytestmark = pytest.mark.slow


def gridded(silos: int, name: str, intensity: float, points: int) -> tuple[StageGame, np.ndarray, np.ndarray]:
    """A game, each silo's grid with its equilibrium contribution among the points, and payoffs [..., silo]."""
    scenario = preset(name)
    scenario = scenario.model_copy(update={"silos": scenario.silos.model_copy(update={"count": silos})})
    game = stage_game(scenario).at(jnp.asarray(intensity))
    equilibrium = np.asarray(nash(game))
    grids = np.stack([np.append(np.linspace(0, 1, points), own) for own in equilibrium])
    shape = (points + 1,) * silos
    joint = np.stack([grids[silo][index] for silo, index in enumerate(np.indices(shape))], axis=-1)
    table = eqx.filter_jit(jax.vmap(lambda played: payoffs(game, played)))(jnp.asarray(joint.reshape(-1, silos)))
    return game, grids, np.asarray(table).reshape(*shape, silos)


@pytest.mark.parametrize(
    ("silos", "name", "intensity", "points"),
    [(3, "paper", 0.0, 6), (3, "paper", 3.0, 6), (3, "dilemma", 40.0, 6), (4, "dilemma", 0.0, 4), (4, "paper", 2.0, 4)],
)
def test_gambit_finds_the_same_pure_equilibria_and_regrets(
    silos: int, name: str, intensity: float, points: int
) -> None:
    gambit = pytest.importorskip("pygambit", reason="pygambit is in the dev extra: make slow installs it")
    _, _, table = gridded(silos, name, intensity, points)
    theirs = gambit.Game.from_arrays(*np.moveaxis(table, -1, 0))
    found = set()
    for equilibrium in gambit.nash.enumpure_solve(theirs).equilibria:
        chosen = [
            [float(equilibrium[strategy]) for strategy in player.strategies].index(1.0) for player in theirs.players
        ]
        assert float(equilibrium.max_regret()) <= 1e-9
        found.add(tuple(chosen))

    best = np.stack(
        [np.broadcast_to(table[..., n].max(axis=n, keepdims=True), table.shape[:-1]) for n in range(silos)], -1
    )
    regret = best - table
    ours = {index for index in itertools.product(range(points + 1), repeat=silos) if not regret[index].any()}
    assert found == ours
    assert (points,) * silos in ours, "the equilibrium of the whole game stays one on the grid"

    for index in list(itertools.product(range(points + 1), repeat=silos))[:: 1 + 40 * (silos - 3)]:
        profile = theirs.mixed_strategy_profile()
        for player, choice in zip(theirs.players, index, strict=True):
            for place, strategy in enumerate(player.strategies):
                profile[strategy] = float(place == choice)
        for player, expected in zip(theirs.players, regret[index], strict=True):
            assert float(profile.player_regret(player)) == pytest.approx(expected, abs=1e-9)
