"""Silos that keep to plans, where learnt ones would play: what is planned is put to the same tests."""

import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from potluck.agents import Act, Diagnostics, Window
from potluck.agents.actors import PlanActor
from potluck.agents.environment import Environment, Wrapper
from potluck.training.config import RunConfig
from potluck.training.lanes import stack
from potluck.training.loop import Runs, Setup
from potluck.training.run import Trained


class Follower(eqx.Module):
    """One player that keeps to its plan. It learns nothing: its state is the plan, its memory the slot."""

    slots: int

    central = False

    def init(self, key: PRNGKeyArray) -> PlanActor:
        """Nothing is planned yet."""
        del key
        return PlanActor(jnp.zeros((self.slots, 1)))

    def initial_memory(self, state: PlanActor) -> Int[Array, ""]:
        return state.initial_memory()

    def act(
        self, state: PlanActor, memory: Int[Array, ""], observation: Float[Array, " observation"], key: PRNGKeyArray
    ) -> tuple[Int[Array, ""], Act]:
        """It does not explore."""
        del key
        memory, action = self.play(state, memory, observation)
        return memory, Act(action, action, jnp.zeros_like(action))

    def play(
        self, state: PlanActor, memory: Int[Array, ""], observation: Float[Array, " observation"]
    ) -> tuple[Int[Array, ""], Float[Array, " action"]]:
        return state(memory, observation)

    def update(self, state: PlanActor, window: Window[Any]) -> tuple[PlanActor, Any, Diagnostics]:
        return state, window.memory_after, {}

    def export(self, state: PlanActor) -> PlanActor:
        return state


class AroundState(eqx.Module):
    """The state of the game, and which slot it is."""

    state: Any
    slot: Int[Array, ""]


class Around(Wrapper):
    """A game of one player whose action says how far it goes from its plan: d_t = plan_t + a_t − ½, within [0, 1]."""

    plan: Float[Array, " slots"]

    players = 1

    def reset(self, key: PRNGKeyArray) -> AroundState:
        return AroundState(self.environment.reset(key), jnp.asarray(0))

    def observe(self, state: AroundState) -> Float[Array, "1 observation"]:
        return self.environment.observe(state.state)

    def step(
        self, state: AroundState, actions: Float[Array, "1 action"], key: PRNGKeyArray
    ) -> tuple[AroundState, Float[Array, " 1"], Any]:
        """One slot, near the plan."""
        taken = jnp.clip(self.plan[state.slot] + actions - 0.5, 0, 1)
        after, payoffs, report = self.environment.step(state.state, taken, key)
        return AroundState(after, state.slot + 1), payoffs, report


def keeping_to(
    plans: Float[Array, "seeds slots silos"], config: RunConfig, environment: Environment[Any, Any]
) -> Trained:
    """A run whose silos keep to plans for all, one for every seed."""
    seeds, slots, _ = plans.shape
    lanes = stack([Setup(environment, Follower(slots))] * seeds)
    return Trained(dataclasses.replace(config, seeds=seeds), lanes, Runs(followers(plans), None, None))


def followers(plans: Float[Array, "seeds slots players"]) -> PlanActor:
    """States of followers, [seeds, players, …]."""
    states: PlanActor = eqx.filter_vmap(eqx.filter_vmap(PlanActor))(jnp.swapaxes(plans, 1, 2)[..., None])
    return states
