"""The JAX engine and a Flower federation are the same: weights, precision and transfers, slot by slot."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from potluck.federation.dynamics import Window
from potluck.federation.fedavg import FedAvg
from potluck.federation.from_scenario import on_task
from potluck.flower.up import Trial, play
from potluck.game import game
from potluck.ledger import micro, reading, verify
from potluck.mechanisms import facts_of, first_state, settle_slot
from potluck.scenario import Scenario, preset

SHARES = (1.0, 0.6, 0.4, 0.2)


def digits(mechanism: str) -> Scenario:
    """Four silos of 350 samples each, so that a share of one's data is a share of all of it."""
    scenario = on_task(preset("paper"), "digits")
    silos = scenario.silos.model_copy(update={"samples": 350.0})
    described = {**scenario.model_dump(), "silos": silos.model_dump()}
    if mechanism == "proportional":
        described["mechanism"] = {"kind": "proportional", "pot": 20.0}
    return Scenario.model_validate(described)


def simulate(scenario: Scenario, slots: int) -> tuple[list[float], list[list[int]], list[np.ndarray]]:
    """The same slots in the game's own engine."""
    played = game(scenario)
    source, mechanism = played.source, played.mechanism
    assert isinstance(source, FedAvg)
    model = source.init_model(jax.random.key(0))
    state = first_state(mechanism, source.precision(model.weights))
    shares, held = jnp.array(SHARES, jnp.float32), source.silos.pool.astype(jnp.float32)
    everything = Window(start=jnp.zeros_like(source.silos.pool), size=source.silos.pool)
    reached, moved = [], []
    for slot in range(1, slots + 1):
        model, measured = source.round(model, shares, jax.random.key(slot), everything)
        settled = settle_slot(mechanism, state, facts_of(mechanism, shares, held, measured.precision))
        state = settled.state
        reached.append(float(measured.precision))
        moved.append(micro([float(transfer) for transfer in settled.transfers], balanced=True))
    return reached, moved, [np.asarray(leaf) for leaf in jax.tree.leaves(model.weights)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "simulation", "slots"),
    [("redistribution", True, 5), ("proportional", False, 2)],
)
def test_a_flower_federation_is_the_engine(tmp_path: Path, mechanism: str, simulation: bool, slots: int) -> None:
    # Deployed, and by Flower's own engine; on basis fraction and on basis samples.
    scenario = digits(mechanism)
    consortium, run = play(Trial(scenario, slots, SHARES, tmp_path / "trial", simulation=simulation))
    reached, moved, weights = simulate(scenario, slots)
    with reading(consortium.ledger) as book:
        rows = list(book.rows(run=run))
    kept = [rows[at : at + 4] for at in range(0, len(rows), 4)]
    np.testing.assert_allclose([slot[0].precision for slot in kept], reached, atol=1e-7)
    # P is a mean in single precision: its last bit depends on what it is compiled with, and is worth a micro-unit.
    np.testing.assert_allclose([[row.transfer for row in slot] for slot in kept], moved, rtol=0, atol=2)
    assert {sum(row.transfer for row in slot) for slot in kept} == {0}
    assert all(row.countersigned for row in rows)
    assert verify(consortium.ledger).fault is None
    with np.load(consortium.folder / "model.npz") as saved:
        for ours, theirs in zip(weights, saved.values(), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-5)
