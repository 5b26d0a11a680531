"""An outside oracle: Gambit, another group's program, on the same games with contributions from a grid."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pygambit as gambit
import pytest

from potluck.economy import StageGame, nash, payoffs, regrets
from potluck.game import stage_game
from potluck.scenario import preset

own_regrets = eqx.filter_jit(regrets)


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
    game, grids, table = gridded(silos, name, intensity, points)
    theirs = gambit.StrategicGame.from_arrays(*np.moveaxis(table, -1, 0))
    players, choices = list(theirs.players), range(points + 1)
    names = [list(theirs.get_strategies(player)) for player in players]
    found = set()
    for equilibrium in gambit.nash.enumpure_solve(theirs).equilibria:
        assert float(equilibrium.max_regret()) == 0
        played = [
            [float(equilibrium[player][name]) for name in own] for player, own in zip(players, names, strict=True)
        ]
        found.add(tuple(own.index(1.0) for own in played))

    best = np.stack(
        [np.broadcast_to(table[..., n].max(axis=n, keepdims=True), table.shape[:-1]) for n in range(silos)], -1
    )
    regret = best - table
    assert found == {index for index in itertools.product(choices, repeat=silos) if not regret[index].any()}
    assert (points,) * silos in found, "the equilibrium of the whole game stays one on the grid"

    for index in list(itertools.product(choices, repeat=silos))[:: 1 + 40 * (silos - 3)]:
        profile = theirs.mixed_strategy_profile([[float(place == choice) for place in choices] for choice in index])
        theirs_here = [float(profile.player_regrets[player]) for player in players]
        np.testing.assert_allclose(theirs_here, regret[index], atol=1e-9)

        # Ours may deviate anywhere, theirs to the grid alone: ours are no smaller, and no larger than a cell allows.
        ours = np.asarray(own_regrets(game, jnp.asarray([grids[silo][place] for silo, place in enumerate(index)])))
        assert np.all(ours >= regret[index] - 1e-9)
        assert np.all(ours <= regret[index] + np.asarray(game.terms.profit + game.cost) / points)
