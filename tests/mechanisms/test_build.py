"""A mechanism that cannot settle is named in one line, before anything is built on it."""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from jaxtyping import Array

from potluck.errors import PotluckError
from potluck.game import game, stage_game
from potluck.mechanisms import Facts, Kind, MechanismConfig, build_mechanism, facts_of
from potluck.scenario import Scenario, mechanism_of, preset


@pytest.fixture(autouse=True)
def single_precision() -> Iterator[None]:
    """As games are played."""
    with jax.enable_x64(False):
        yield


class Fine(eqx.Module):
    """Nothing moves, a slot is counted."""

    needs = frozenset[Any]()
    balanced = True

    def init(self, precision: Array) -> Any:
        return jnp.zeros_like(precision)

    def settle(self, state: Any, facts: Facts) -> Any:
        return state + 1, jnp.zeros_like(facts.contributions), jnp.zeros_like(facts.precision)

    def signal_bounds(self) -> tuple[float, float]:
        return 0.0, 0.0


def odd(name: str, **members: Any) -> type[Fine]:
    return type(name, (Fine,), members)


def answers(settle: Any) -> type[Fine]:
    return odd("Odd", settle=lambda _, state, facts: settle(state, facts))


def zeros(facts: Facts) -> Array:
    return jnp.zeros_like(facts.contributions)


def broken(*_: Any) -> Any:
    raise KeyError("no such silo")


def on_a_value(state: Any, facts: Facts) -> Any:
    return (
        (state, zeros(facts), facts.precision) if facts.precision > 0.5 else (state, zeros(facts), 0 * facts.precision)
    )


BAD = {
    "must give one transfer per silo, shape (4,), got (4, 1)": answers(
        lambda state, facts: (state, zeros(facts)[:, None], facts.precision)
    ),
    "must give one transfer per silo, shape (4,), got ()": answers(lambda state, _: (state, 0.0, 0.0)),
    "must give one number as its signal, shape (), got (4,)": answers(
        lambda state, facts: (state, zeros(facts), zeros(facts))
    ),
    "must settle a slot by three answers": answers(lambda state, facts: (state, zeros(facts))),
    "must give finite numbers, got transfers [nan nan nan nan] where silos bring 0, 0, 0, 0": answers(
        lambda state, facts: (
            state,
            facts.contributions / facts.contributions.sum() - 0.25,
            facts.precision * 0,
        )
    ),
    "must give finite numbers, got a signal inf where": answers(
        lambda state, facts: (state, zeros(facts), jnp.inf * (1 + facts.precision))
    ),
    "must give transfers that sum to zero, or say that it is not balanced: they sum to 4 where silos bring 1, 1, 1": (
        answers(lambda state, facts: (state, facts.contributions, 0 * facts.precision))
    ),
    "must keep the form of its state: init gives float32[], settle int32[]": answers(
        lambda state, facts: (state.astype(int), zeros(facts), 0 * facts.precision)
    ),
    "must keep the form of its state: init gives float32[], settle float32[4]": answers(
        lambda state, facts: (state + zeros(facts), zeros(facts), 0 * facts.precision)
    ),
    "must keep the form of its state: init gives PyTreeDef(*), settle gives PyTreeDef((*, *))": answers(
        lambda state, facts: ((state, state), zeros(facts), 0 * facts.precision)
    ),
    "must keep its signal between its bounds 0 and 0, got 0.1 to 0.7": answers(
        lambda state, facts: (state, zeros(facts), facts.precision)
    ),
    "must bound its signal by the least and the most, got 1.0 and 0.0": odd("Odd", signal_bounds=lambda _: (1.0, 0.0)),
    "needs payoffs; it can be told": odd("Odd", needs=frozenset({"payoffs"})),
    "fails: KeyError: 'no such silo'": answers(broken),
    "fails: TracerBoolConversionError: Attempted boolean conversion of traced array": answers(on_a_value),
}


def described(mechanism: Any) -> Scenario:
    class Config(MechanismConfig):
        kind: Kind = "odd"

        def build(self, declared: Any) -> Any:
            del declared
            return mechanism()

    return preset("paper").model_copy(update={"mechanism": Config()})


@pytest.mark.parametrize("message", BAD)
def test_a_bad_mechanism_is_named_in_one_line(message: str) -> None:
    for use in (game, stage_game):
        with pytest.raises(PotluckError) as caught:
            use(described(BAD[message]))
        assert str(caught.value).startswith(f"mechanism odd {message}")
        assert caught.value.field == "mechanism"
        assert "\n" not in str(caught.value)


def test_a_mechanism_that_cannot_be_built_is_named() -> None:
    def build() -> Any:
        raise ZeroDivisionError("division by zero")

    with pytest.raises(PotluckError, match=r"^mechanism odd fails: ZeroDivisionError: division by zero"):
        game(described(build))


def test_a_good_one_passes_and_one_that_brings_money_says_so() -> None:
    game(described(Fine))
    generous = answers(lambda state, facts: (state, facts.contributions, 0 * facts.precision))
    game(described(type("Generous", (generous,), {"balanced": False})))


@pytest.mark.parametrize("kind", ["redistribution", "none", "per-silo", "cost-sharing", "proportional"])
@pytest.mark.parametrize("name", ["paper", "literal", "per-thousand"])
def test_our_own_pass(kind: str, name: str) -> None:
    scenario = preset(name).model_copy(update={"mechanism": mechanism_of(kind)})
    for silos in (2, 256):
        many = scenario.model_copy(update={"silos": scenario.silos.model_copy(update={"count": silos})})
        build_mechanism(many, many.draw(jax.random.key(0)))


def test_a_mechanism_is_told_what_it_needs_and_no_more() -> None:
    played, held, marginal = jnp.array([0.5, 1.0]), jnp.array([100.0, 200.0]), jnp.array([0.1, 0.2])
    for needs in (frozenset[Any](), frozenset({"samples"}), frozenset({"samples", "marginal"})):
        facts = facts_of(odd("Odd", needs=needs)(), played, held, jnp.asarray(0.5), marginal)
        assert (facts.samples is not None) == ("samples" in needs)
        assert (facts.marginal is not None) == ("marginal" in needs)
        if facts.samples is not None:
            assert facts.samples.tolist() == [50.0, 200.0]
