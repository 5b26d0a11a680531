"""The game as pure functions: slot by slot by hand, and what holds whatever the scenario."""

from typing import Any

import equinox as eqx
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose, assert_array_equal
from pydantic import ValidationError

from potluck.game import Game, Members, Planner, game
from potluck.mechanisms.redistribution import mean_over_pairs
from potluck.scenario import CurvePrecision, FederationConfig, Normal, Scenario, mechanism_of, preset
from potluck.scenario.description import PAPER_OBSERVATION
from tests.game.conftest import DIGITS, DRAWN, REAL, Play, by_hand, play, play_through, random_contributions

# K = 200, 650, 800 and so P = 0.9 − 0.8/3, 0.9 − 0.8/7.5, 0.9 − 0.8/9
HAND = jnp.array([[1.0, 0.5, 0.0], [0.5, 0.5, 1.0], [0.0, 0.0, 0.5]])
KEY = jax.random.key(0)
ALL = (*PAPER_OBSERVATION, "own_contribution", "own_samples", "slot")


def leaves(tree: object) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def test_two_slots_by_hand() -> None:
    played = play(game(by_hand()), HAND, KEY)
    parts = played.slots.payoff
    assert_allclose(played.slots.precision[:2], [0.9 - 0.8 / 3, 0.9 - 0.8 / 7.5], rtol=1e-6)
    assert_allclose(parts.revenue[0], [633.3333, 570.0, 506.6667], rtol=1e-6)
    assert_allclose(parts.energy[0], [0.01 * 1 * 100, 0.01 * 2 * 100, 0.0], rtol=1e-6)
    assert_allclose(parts.communication[0], [0.4, 0.6, 0.7], rtol=1e-6)
    # 6·(3·d − 1.5), then 6·(3·d − 2)
    assert_allclose(parts.transfer[:2], [[9.0, 0.0, -9.0], [-3.0, -3.0, 6.0]], atol=1e-5)
    assert_allclose(parts.total[0], [633.3333 - 1 - 0.4 + 9, 570 - 2 - 0.6, 506.6667 - 0.7 - 9], rtol=1e-6)
    assert_allclose(
        parts.total[1],
        [793.3333 - 0.5 - 0.4 - 3, 714 - 2 - 0.6 - 3, 634.6667 - 9 - 0.7 + 6],
        rtol=1e-6,
    )
    assert_array_equal(played.states.slot, [1, 2, 3])


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        # ḡ = 0.5333, then (0.5333 + 0.16) / 2: their ratio is 0.65, and the third slot's own gain has no part in it
        ("gain", 6 * 0.65),
        ("constant", 6.0),
        # (0.9 − 0.8/9 − 0.79333) / 0.16 = 1/9
        ("printed", 6 / 9),
    ],
)
def test_intensity_of_the_third_slot_by_hand(rule: str, expected: float) -> None:
    slots = play(game(by_hand(mechanism=mechanism_of("redistribution", intensity=6.0, schedule=rule))), HAND, KEY).slots
    assert_allclose(slots.signal, [6.0, 6.0, expected], rtol=2e-5)
    # α(3·d − 0.5)
    assert_allclose(slots.payoff.transfer[2], expected * np.array([-0.5, -0.5, 1.0]), rtol=2e-5)


def test_observations_by_hand_newest_slot_first_and_zero_before_the_game() -> None:
    seen = play(game(by_hand()), HAND, KEY).seen
    assert seen.shape == (4, 3, 2 * 5)
    first, second, alpha = 0.9 - 0.8 / 3, 0.9 - 0.8 / 7.5, 6 * 0.65
    assert_array_equal(seen[0], np.zeros((3, 10)))
    # others' d, own C, α, P
    assert_allclose(seen[1, 0], [0.5, 0.0, 0.4, 6, first, 0, 0, 0, 0, 0], rtol=1e-6)
    assert_allclose(seen[1, 2], [1.0, 0.5, 0.7, 6, first, 0, 0, 0, 0, 0], rtol=1e-6)
    assert_allclose(seen[2, 1], [0.5, 1.0, 0.6, 6, second, 1.0, 0.0, 0.6, 6, first], rtol=1e-6)
    # the first slot is forgotten
    assert_allclose(seen[3, 0], [0.0, 0.5, 0.4, alpha, 0.9 - 0.8 / 9, 0.5, 1.0, 0.4, 6, second], rtol=2e-5)


def test_every_option_adds_what_it_names() -> None:
    # Options change what is seen of a game, not the game.
    states = play(game(by_hand()), HAND, KEY).states
    plain = jax.vmap(game(by_hand()).observe)(states)
    for name, more in (("own_contribution", 2), ("own_samples", 1), ("slot", 1)):
        chosen = game(by_hand(observation=(*PAPER_OBSERVATION, name)))
        seen = jax.vmap(chosen.observe)(states)
        assert chosen.observation_size == seen.shape[-1] == plain.shape[-1] + more
        if name == "own_contribution":
            for silo in range(3):
                assert_array_equal(seen[1, silo, [5, 11]], HAND[[1, 0], silo])
            assert_array_equal(jnp.delete(seen, jnp.array([5, 11]), axis=-1), plain)
        else:
            assert_array_equal(seen[..., :-1], plain)
            expected = [[100, 200, 300]] * 3 if name == "own_samples" else [[t / 5] * 3 for t in (1, 2, 3)]
            assert_allclose(seen[..., -1], expected, rtol=1e-6)
    everything = game(by_hand(observation=ALL))
    assert everything.observation_size == jax.vmap(everything.observe)(states).shape[-1] == 2 * 6 + 2


MATRIX = ((9.0, 1.0, 2.0), (1.0, 0.0, 3.0), (2.0, 3.0, 0.0))
MECHANISMS: dict[str, tuple[str, dict[str, Any]]] = {
    "none": ("none", {}),
    "fraction": ("redistribution", {"basis": "fraction", "intensity": 40.0}),
    "samples": ("redistribution", {"basis": "samples", "unit": 100.0, "intensity": 40.0}),
    "matrix": ("redistribution", {"intensity": MATRIX}),
    "per-silo": ("per-silo", {"intensity": (40.0, 0.0, 10.0)}),
    "cost-sharing": ("cost-sharing", {}),
    "proportional": ("proportional", {}),
}


@pytest.mark.parametrize(
    ("mechanism", "rule"),
    [*((name, None) for name in MECHANISMS), ("samples", "constant"), ("matrix", "printed")],
)
def test_whatever_the_mechanism_and_rule_the_budget_balances_in_every_slot(mechanism: str, rule: Any) -> None:
    silos = DRAWN.model_copy(update={"redraw": ("communication", "samples")})
    kind, options = MECHANISMS[mechanism]
    chosen = mechanism_of(kind, **options, **({} if rule is None else {"schedule": rule}))
    scenario = by_hand(silos=silos, mechanism=chosen, horizon=30)
    slots = play(game(scenario), random_contributions(30, 3), KEY).slots
    transfer = np.asarray(slots.payoff.transfer)
    assert_allclose(transfer.sum(axis=1), 0, atol=1e-5 * max(np.abs(transfer).max(), 1))
    assert_allclose(jax.vmap(lambda parts: parts.welfare)(slots.payoff), slots.payoff.total.sum(axis=1), rtol=1e-5)
    assert (np.abs(transfer).max() > 1) == (mechanism != "none")
    if rule != "printed":
        most = {"none": 0.0, "matrix": 2.0, "per-silo": 50 / 3, "proportional": 20.0}.get(mechanism, 40.0)
        assert 0 <= slots.signal.min() <= slots.signal.max() <= most * (1 + 1e-6)


def test_the_intensity_that_all_see_is_that_of_the_pairs() -> None:
    # (1 + 2 + 3) / 3, whatever stands on the diagonal
    assert float(mean_over_pairs(jnp.asarray(MATRIX))) == 2.0
    assert float(mean_over_pairs(jnp.asarray(4.0))) == 4.0


def real(**silos: Any) -> Scenario:
    """Four slots of real training on the digits."""
    return by_hand(silos=DRAWN.model_copy(update=silos), precision=REAL, horizon=4)


@pytest.fixture(scope="module")
def federation() -> Game:
    return game(real(), seed=1, data=DIGITS)


@pytest.fixture(scope="module")
def trained(federation: Game) -> Play:
    return play(federation, random_contributions(4, 3), KEY)


def test_real_training_drives_the_game(federation: Game, trained: Play) -> None:
    precision = np.asarray(trained.slots.precision)
    assert_allclose(precision * 397, np.round(precision * 397), atol=1e-3)
    assert precision[-1] > 0.3
    assert_allclose(trained.slots.payoff.revenue, precision[:, None] * federation.terms.profit, rtol=1e-6)
    assert_array_equal(trained.states.terms.samples, np.tile(federation.terms.samples, (4, 1)))
    bill = 0.01 * federation.terms.energy * trained.slots.contributions * federation.terms.samples
    assert_allclose(trained.slots.payoff.energy, bill, rtol=1e-5)


@pytest.mark.parametrize("source", ["curve", "fedavg"])
def test_the_same_key_gives_the_same_bits_and_another_others(source: str, federation: Game, trained: Play) -> None:
    if source == "curve":
        federation = game(by_hand(silos=DRAWN))
        trained = play(federation, random_contributions(4, 3), KEY)
    again = play(federation, random_contributions(4, 3), KEY)
    for one, other in zip(leaves(trained), leaves(again), strict=True):
        assert_array_equal(one, other)
    other_key = play(federation, random_contributions(4, 3), jax.random.key(1))
    assert (np.asarray(other_key.seen[1:]) != np.asarray(trained.seen[1:])).any()


@pytest.mark.parametrize("source", ["curve", "fedavg"])
def test_games_side_by_side_are_the_games_alone(source: str, federation: Game) -> None:
    chosen = game(by_hand(silos=DRAWN)) if source == "curve" else federation
    keys = jax.random.split(jax.random.key(5), 3)
    contributions = jnp.stack([random_contributions(4, 3, seed) for seed in range(3)])
    together = eqx.filter_jit(jax.vmap(play_through, in_axes=(None, 0, 0)))(chosen, contributions, keys)
    alone = [play(chosen, *given) for given in zip(contributions, keys, strict=True)]
    for number, one in enumerate(alone):
        # Batched products round otherwise, and a sample at the border may fall to the other side.
        slack = 1e-6 if source == "curve" else 2.5 / 397
        assert_allclose(together.slots.precision[number], one.slots.precision, atol=slack)
        assert_allclose(together.slots.payoff.energy[number], one.slots.payoff.energy, rtol=1e-5)
        assert_allclose(together.slots.payoff.communication[number], one.slots.payoff.communication, rtol=1e-5)
        if source == "curve":
            assert_allclose(together.seen[number], one.seen, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("silos", "precision", "changes"),
    [
        ({"redraw": ("samples",)}, None, True),
        ({"redraw": ("samples",)}, REAL, True),
        ({"redraw": ()}, REAL.model_copy(update={"dynamics": "stream"}), False),
    ],
    ids=["curve-redraw", "fedavg-redraw", "fedavg-stream"],
)
def test_data_that_changes(silos: dict[str, Any], precision: FederationConfig | None, changes: bool) -> None:
    scenario = by_hand(silos=DRAWN.model_copy(update=silos), horizon=4)
    if precision is not None:
        scenario = scenario.model_copy(update={"precision": precision})
    dynamic = game(scenario, data=DIGITS)
    played = play(dynamic, jnp.ones((4, 3)), KEY)
    sizes = np.asarray(played.states.terms.samples)
    assert_array_equal(sizes, jax.vmap(dynamic.source.samples)(played.states.federation))
    assert (sizes != sizes[0]).any() == changes
    assert (np.abs(sizes - 100) <= 25).all()
    # A slot is paid for at the sizes that it began with.
    bill = 0.01 * dynamic.terms.energy * sizes[:-1]
    assert_allclose(played.slots.payoff.energy[1:], bill, rtol=1e-5)
    if not changes:
        starts = np.asarray(played.states.federation.window.start)
        assert (starts[1:] != starts[:-1]).all()


def test_terms_are_those_of_the_run_or_drawn_for_every_game() -> None:
    keys = jax.random.split(KEY, 2)
    run = game(by_hand(silos=DRAWN))
    first, second = (run.reset(key).terms for key in keys)
    for name in ("profit", "energy", "samples"):
        assert_array_equal(getattr(first, name), getattr(second, name))
        assert_array_equal(getattr(first, name), getattr(run.terms, name))
    assert (np.asarray(first.communication) != np.asarray(second.communication)).all()
    episodes = game(by_hand(silos=DRAWN.model_copy(update={"drawn": "episode"})))
    first, second = (episodes.reset(key).terms for key in keys)
    for name in ("profit", "energy", "communication", "samples"):
        assert (np.asarray(getattr(first, name)) != np.asarray(getattr(second, name))).any()
    states = play(episodes, random_contributions(4, 3), KEY).states
    assert (states.terms.profit == states.terms.profit[0]).all()
    assert (states.terms.samples == states.terms.samples[0]).all()


def test_terms_drawn_for_every_game_leave_real_data_where_it_is() -> None:
    episodes = game(real(drawn="episode"), data=DIGITS)
    first, second = (episodes.reset(key).terms for key in jax.random.split(KEY, 2))
    assert (np.asarray(first.profit) != np.asarray(second.profit)).all()
    assert_array_equal(first.samples, second.samples)


def test_a_seed_draws_the_silos_and_the_scenarios_own_is_the_default() -> None:
    scenario = by_hand(silos=DRAWN, seed=3)
    assert_array_equal(game(scenario).terms.profit, game(scenario, seed=3).terms.profit)
    assert (np.asarray(game(scenario, seed=4).terms.profit) != np.asarray(game(scenario).terms.profit)).any()


def test_silos_earn_their_payoff_and_the_planner_the_welfare() -> None:
    plain = game(by_hand())
    state = plain.reset(KEY)
    after, slot = plain.step(state, HAND[0], KEY)
    silos, planner = Members(plain), Planner(plain)
    assert (silos.players, silos.action_size, silos.observation_size) == (3, 1, 10)
    assert (planner.players, planner.action_size, planner.observation_size) == (1, 3, 30)
    assert silos.horizon == planner.horizon == 5
    _, payoffs, _ = silos.step(silos.reset(KEY), HAND[0][:, None], KEY)
    assert_allclose(payoffs, slot.payoff.total, rtol=1e-6)
    _, welfare, _ = planner.step(planner.reset(KEY), HAND[0][None], KEY)
    assert_allclose(welfare, [slot.payoff.total.sum()], rtol=1e-6)
    assert_array_equal(planner.observe(after)[0], silos.observe(after).reshape(-1))


def test_the_papers_silo_sees_six_numbers_of_each_of_seven_slots() -> None:
    assert game(preset("paper")).observation_size == 42


def test_two_silos_and_sixty_four_play() -> None:
    for count in (2, 64):
        many = game(by_hand(silos=DRAWN.model_copy(update={"count": count})))
        assert play(many, random_contributions(2, count), KEY).seen.shape == (3, count, 2 * (count + 2))


NUMBERS: list[dict[str, Any]] = [
    {"energy_price": 0.5},
    {"mechanism": mechanism_of("redistribution", intensity=1.0, schedule="gain", smoothing=0.1)},
    {"precision": CurvePrecision(initial=0.2, ceiling=0.8, scale=50.0, exponent=0.5)},
    {"silos": DRAWN.model_copy(update={"profit": 5.0, "energy": (1.0, 2.0, 3.0)})},
    {"silos": DRAWN.model_copy(update={"communication": Normal(mean=3, deviation=1), "samples": (9.0, 8.0, 7.0)})},
    {"precision_unit": "percent", "seed": 3},
]


def test_numbers_vary_without_compiling_anew() -> None:
    traced = 0

    @eqx.filter_jit
    def counted(played: Game, contributions: jax.Array, key: jax.Array) -> Play:
        nonlocal traced
        traced += 1
        return play_through(played, contributions, key)

    for changes in [{}, *NUMBERS]:
        counted(game(by_hand(**({"silos": DRAWN} | changes))), HAND, KEY)
    assert traced == 1
    counted(game(by_hand(silos=DRAWN, history=3)), HAND, KEY)
    counted(game(by_hand(silos=DRAWN, mechanism=mechanism_of("redistribution", schedule="constant"))), HAND, KEY)
    assert traced == 3


def test_games_of_different_numbers_run_side_by_side() -> None:
    several = [game(by_hand(energy_price=price)) for price in (0.0, 0.01, 0.1)]
    together: Game = jax.tree.map(lambda *leaves: jnp.stack(leaves), *several)
    played = eqx.filter_vmap(play_through, in_axes=(eqx.if_array(0), None, None))(together, HAND, KEY)
    for number, one in enumerate(several):
        alone = play(one, HAND, KEY)
        assert_allclose(played.slots.payoff.total[number], alone.slots.payoff.total, rtol=1e-6)


def test_a_report_sums_a_slot_up() -> None:
    plain = game(by_hand())
    _, slot = plain.step(plain.reset(KEY), HAND[0], KEY)
    _, _, told = Members(plain).step(plain.reset(KEY), HAND[0][:, None], KEY)
    assert_array_equal(told.transfers, slot.payoff.transfer)
    assert_array_equal(told.payoffs, slot.payoff.total)
    assert_array_equal(told.signal, slot.signal)


EXTREMES = st.sampled_from([5e-324, 1e-46, 1e-38, 1e-12, 1e-6, 1.0, 1e6, 1e12])


@st.composite
def extreme_scenarios(draw: st.DrawFn) -> dict[str, Any]:
    def each() -> Any:
        return draw(st.one_of(EXTREMES, st.fixed_dictionaries({"mean": EXTREMES, "deviation": EXTREMES})))

    compared = {"basis": "samples", "unit": draw(EXTREMES), "intensity": draw(EXTREMES), "schedule": "constant"}
    mechanism = draw(st.sampled_from([{"kind": "none"}, compared, {"kind": "proportional", "pot": draw(EXTREMES)}]))
    return {
        "horizon": 3,
        "history": 2,
        "energy_price": draw(EXTREMES),
        "silos": {"count": 3, "profit": each(), "energy": each(), "communication": each(), "samples": each()},
        "mechanism": mechanism,
        "precision": {"scale": draw(EXTREMES), "exponent": draw(EXTREMES)},
        "observation": list(ALL),
    }


@settings(max_examples=200)
@given(extreme_scenarios())
def test_a_scenario_that_is_accepted_is_played_in_numbers_that_single_precision_has(described: dict[str, Any]) -> None:
    try:
        scenario = Scenario.model_validate(described)
    except ValidationError:
        return
    played = play(game(scenario), HAND, KEY)
    for leaf in leaves((played.slots, played.seen, played.slots.payoff.total, played.slots.payoff.welfare)):
        assert leaf.dtype != np.float64
        assert np.isfinite(leaf).all()
