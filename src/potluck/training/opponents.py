"""One player against others who have learnt all they will: what a best response is trained in."""

from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from potluck.agents import Learner
from potluck.agents.environment import Wrapper


class Table(eqx.Module):
    """The state of the game, and everyone's memory state."""

    state: Any
    memory: Any


class Against(Wrapper):
    """An environment of one player: the others play what they have learnt, without exploration and without learning."""

    learner: Learner[Any, Any]
    agents: Any
    player: Int[Array, ""]

    players = 1

    def reset(self, key: PRNGKeyArray) -> Table:
        """A game before its first slot, nobody remembering anything."""
        memory = jax.vmap(self.learner.initial_memory, axis_size=self.environment.players)(self.agents)
        return Table(self.environment.reset(key), memory)

    def observe(self, state: Table) -> Float[Array, "1 observation"]:
        """What this player sees, and nothing of the others'."""
        return self.environment.observe(state.state)[self.player][None]

    def step(
        self, state: Table, actions: Float[Array, "1 action"], key: PRNGKeyArray
    ) -> tuple[Table, Float[Array, " 1"], Any]:
        """One slot in which all but one do as they learnt."""
        observed = self.environment.observe(state.state)
        memory, played = jax.vmap(self.learner.play)(self.agents, state.memory, observed)
        played = played.at[self.player].set(actions[0])
        after, payoffs, report = self.environment.step(state.state, played, key)
        return Table(after, memory), payoffs[self.player][None], report
