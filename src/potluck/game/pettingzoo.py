"""The game for PettingZoo: every silo an agent, contributions and observations in `Box` spaces.

Needs `pip install 'potluck-fl[pettingzoo]'`. The names are PettingZoo's own: `parallel_env` is the game, where all
silos decide at once; `env` is the same game turn by turn, and `raw_env` that without the wrapper that watches the
order of calls. Importing this module also registers the game, where PettingZoo has a registry (1.27 and later), so that

    import pettingzoo, potluck.game.pettingzoo
    env = pettingzoo.make("parallel", "potluck_v0", scenario="dilemma")

is `parallel_env("dilemma")`, and `make("aec", …)` is `env(…)`.
"""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt
from numpy.typing import NDArray

try:
    import gymnasium
    import pettingzoo
    from gymnasium.spaces import Box
    from pettingzoo.utils import AECEnv, OrderEnforcingWrapper, ParallelEnv
    from pettingzoo.utils.conversions import parallel_to_aec_wrapper
except ModuleNotFoundError as missing:
    remedy = f"{missing.name} is not installed; the game's PettingZoo face needs: pip install 'potluck-fl[pettingzoo]'"
    raise ModuleNotFoundError(remedy, name=missing.name) from None

from potluck.errors import PotluckError
from potluck.federation import Dataset
from potluck.game.game import Game, Slot, State, game
from potluck.game.observation import View, bounds_of
from potluck.game.record import Own, Record
from potluck.scenario import Drawn, Scenario, preset

ID = "potluck_v0"
FARTHEST = 10
"""Deviations above the mean that no draw reaches: a uniform number of 53 bits becomes a normal one below 8.3."""

Observations = dict[str, NDArray[np.float32]]
Infos = dict[str, dict[str, float]]


class SiloEnv(ParallelEnv[str, Any, Any]):
    """The game of T slots. `silo_n` sees z_n, contributes d_n and earns u_n.

    The game ends at T by its own rules and nothing after it is worth anything, so the last slot is a *termination*:
    a learner must not bootstrap from what it sees there. `max_cycles` below T cuts the game short: a *truncation*.

    An info holds the silo's own figures and what all may know, nothing of another silo:

    - before the first slot, `samples`, its |D_n| in the coming slot
    - after every slot also `revenue`, `energy`, `communication` and `transfer`, the parts of u_n, and the public
      `precision` and `signal` (under redistribution α)
    """

    metadata: dict[str, Any] = {"name": ID, "render_modes": ["human", "ansi"], "is_parallelizable": True}  # noqa: RUF012 (PettingZoo's)

    def __init__(self, played: Game, seed: int, render_mode: str | None = None, max_cycles: int | None = None) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise PotluckError(f"must be human, ansi or None, got {render_mode!r}", field="render_mode")
        if max_cycles is not None and max_cycles < 1:
            raise PotluckError(f"must be 1 or more, got {max_cycles}", field="max_cycles")
        self.game = played
        self.render_mode = render_mode
        self.max_cycles = max_cycles
        self.possible_agents = [f"silo_{n}" for n in range(played.silos)]
        self.agents: list[str] = []
        low, high = limits(played)
        self.state_space = Box(low.reshape(-1), high.reshape(-1), dtype=np.float32)
        self._observed = {name: Box(low[n], high[n], dtype=np.float32) for n, name in enumerate(self.possible_agents)}
        self._decided = {name: Box(0.0, 1.0, (1,), np.float32) for name in self.possible_agents}
        self._seed = checked_seed(seed)
        self._games = 0
        self._slots = 0
        self._state: State | None = None
        self._seen = np.zeros((played.silos, played.observation_size), np.float32)
        self._last: Slot | None = None

    def observation_space(self, agent: str) -> Box:
        """z_n, within what the scenario makes possible."""
        return self._observed[agent]

    def action_space(self, agent: str) -> Box:
        """d_n."""
        return self._decided[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observations, Infos]:
        """Begin a game between the same silos: their terms and data are the constructor's.

        With `seed`, this game and those after it are the ones that the seed stands for; without, the next of them.
        There are no options.
        """
        del options
        if seed is not None:
            self._seed, self._games = checked_seed(seed), 0
        self._state, seen = begin(self.game, jnp.uint32(self._seed), jnp.uint32(self._games))
        self._games += 1
        self._slots, self._last = 0, None
        self._seen = np.asarray(seen, np.float32)
        self.agents = self.possible_agents[:]
        samples = np.asarray(self._state.terms.samples)
        return self._observations(), {name: {"samples": float(samples[n])} for n, name in enumerate(self.agents)}

    def step(
        self, actions: Mapping[str, object]
    ) -> tuple[Observations, dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        """Play one slot. A contribution that is not one number in [0, 1] is refused and leaves the game as it was."""
        if self._state is None or not self.agents:
            raise PotluckError("the game is over, or has not begun: call reset() first")
        seed, number = jnp.uint32(self._seed), jnp.uint32(self._games - 1)
        self._state, self._last, seen = play(self.game, self._state, self._contributions(actions), seed, number)
        self._slots += 1
        self._seen = np.asarray(seen, np.float32)
        ended = self._slots >= self.game.horizon
        cut = not ended and self.max_cycles is not None and self._slots >= self.max_cycles
        rewards = dict(zip(self.agents, map(float, np.asarray(self._last.payoff.total)), strict=True))
        terminations, truncations = dict.fromkeys(self.agents, ended), dict.fromkeys(self.agents, cut)
        answer = (self._observations(), rewards, terminations, truncations, self._infos(self._last, self._state))
        if ended or cut:
            self.agents = []
        if self.render_mode == "human":
            self.render()
        return answer

    def render(self) -> str | None:
        """The last slot in one line: returned (`ansi`), or printed (`human`, after every slot by itself).

        It shows what all silos may know. Welfare is not among it: a sum of private payoffs over many slots gives a
        silo everybody else's terms, and where there are two the other's.
        """
        if self.render_mode is None:
            gymnasium.logger.warn("render() shows nothing without a render_mode: human or ansi")
            return None
        line = f"slot {self._slots}/{self.game.horizon}: " + ("nothing played yet" if self._last is None else "")
        if self._last is not None:
            shares = " ".join(f"{share:.3f}" for share in np.asarray(self._last.contributions))
            line += f"P {float(self._last.precision):.4f}, signal {float(self._last.signal):.3f}, d {shares}"
        if self.render_mode == "ansi":
            return line
        print(line)
        return None

    def state(self) -> NDArray[np.float32]:
        """All observations in a row, for centralised critics. What no silo of a real federation would see."""
        return self._seen.reshape(-1)

    def close(self) -> None:
        """Nothing is held open."""

    def _observations(self) -> Observations:
        return {name: self._seen[n].copy() for n, name in enumerate(self.agents)}

    def _infos(self, slot: Slot, state: State) -> Infos:
        own = {
            "revenue": slot.payoff.revenue,
            "energy": slot.payoff.energy,
            "communication": slot.payoff.communication,
            "transfer": slot.payoff.transfer,
            "samples": state.terms.samples,
        }
        numbers = {part: np.asarray(values) for part, values in own.items()}
        public = {"precision": float(slot.precision), "signal": float(slot.signal)}
        return {
            name: {part: float(values[n]) for part, values in numbers.items()} | public
            for n, name in enumerate(self.agents)
        }

    def _contributions(self, actions: Mapping[str, object]) -> Float[Array, " silos"]:
        for name in actions:
            if name not in self.agents:
                raise PotluckError(f"{name} is no silo of this game: they are silo_0 … {self.agents[-1]}")
        for name in self.agents:
            if name not in actions:
                raise PotluckError(f"{name} has no action: every silo contributes in every slot, if only 0")
        return jnp.array([share_of(name, actions[name]) for name in self.agents], jnp.float32)


@eqx.filter_jit
def begin(played: Game, seed: UInt[Array, ""], number: UInt[Array, ""]) -> tuple[State, Float[Array, "silos seen"]]:
    """The game of this number, among those that the seed stands for, before its first slot."""
    state = played.reset(jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), number), 0))
    return state, played.observe(state)


@eqx.filter_jit
def play(
    played: Game, state: State, contributions: Float[Array, " silos"], seed: UInt[Array, ""], number: UInt[Array, ""]
) -> tuple[State, Slot, Float[Array, "silos seen"]]:
    """One slot, by a key of its own."""
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), number), state.slot + 1)
    state, slot = played.step(state, contributions, key)
    return state, slot, played.observe(state)


def limits(played: Game) -> tuple[Float[np.ndarray, "silos seen"], Float[np.ndarray, "silos seen"]]:
    """The least and the most that each number of z_n can be."""
    least, most = played.mechanism.signal_bounds()
    drawing, nothing = played.drawing, np.zeros(played.silos)
    dearest, held = greatest(drawing.communication), np.ceil(greatest(drawing.samples))
    bill = float(played.energy_price) * greatest(drawing.energy) * held
    poorest = nothing, nothing + 1, nothing, nothing
    richest = dearest, held, float(drawing.points) * greatest(drawing.profit), bill

    def extreme(silo: int, share: float, own: tuple[np.ndarray, ...], signal: float, slot: int) -> View:
        """A view in which every slot was the same."""
        shares = jnp.full((played.history, played.silos), share)
        record = Record(shares, jnp.full(played.history, signal), shares[:, 0])
        communication, *rest = (jnp.asarray(numbers[silo], jnp.float32) for numbers in own)
        return View(record, Own(jnp.full(played.history, communication), *rest), silo, slot, played.horizon)

    bounds = [
        bounds_of(
            extreme(silo, 0.0, poorest, least, 0),
            extreme(silo, 1.0, richest, most, played.horizon),
            played.observation,
        )
        for silo in range(played.silos)
    ]
    low, high = (np.stack(side) for side in zip(*bounds, strict=True))
    return low, high


def greatest(drawn: Drawn) -> Float[np.ndarray, " silos"]:
    """A number above anything that is drawn for each silo."""
    return np.asarray(drawn.mean + FARTHEST * drawn.deviation, float)


def share_of(name: str, action: object) -> float:
    """d_n, from an array of one number, or the number."""
    try:
        numbers = np.empty(0) if np.ma.is_masked(action) else np.asarray(action, float).reshape(-1)
    except (TypeError, ValueError, OverflowError):
        numbers = np.empty(0)
    if numbers.size != 1 or not 0 <= numbers[0] <= 1:
        raise PotluckError(f"{name} must contribute one number in [0, 1], a share of its data, got {_short(action)}")
    return float(numbers[0])


def _short(value: object) -> str:
    try:
        return repr(value)[:40]
    except ValueError:  # Python writes out no number of more than 4,300 digits
        return "a number too long to show"


def checked_seed(seed: object) -> int:
    """A seed as the random numbers need it."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**32:
        raise PotluckError(f"must be a whole number from 0 to {2**32 - 1}, got {_short(seed)}", field="seed")
    return int(seed)


def parallel_env(
    scenario: Scenario | str = "paper",
    *,
    seed: int | None = None,
    data: Dataset | None = None,
    render_mode: str | None = None,
    max_cycles: int | None = None,
) -> SiloEnv:
    """The game of a scenario, or of a preset by name, for PettingZoo; `SiloEnv` says how it is played.

    `seed`, by default the scenario's, draws the silos' terms, splits their data, and orders the games until `reset`
    is given another. `data` is what real training trains on, where it is not the scenario's task.
    """
    scenario = preset(scenario) if isinstance(scenario, str) else scenario
    seed = scenario.seed if seed is None else checked_seed(seed)
    return SiloEnv(game(scenario, seed, data), seed, render_mode, max_cycles)


def raw_env(scenario: Scenario | str = "paper", **options: Any) -> AECEnv[str, Any, Any]:
    """`parallel_env` turn by turn: silos decide one after the other, and the slot is played when the last one has."""
    return parallel_to_aec_wrapper(parallel_env(scenario, **options))


def env(scenario: Scenario | str = "paper", **options: Any) -> AECEnv[str, Any, Any]:
    """`raw_env`, with a clear error for calls out of order. Takes the options of `parallel_env`."""
    return OrderEnforcingWrapper(raw_env(scenario, **options))


if hasattr(pettingzoo, "register"):
    pettingzoo.register("parallel", ID, entry_point=f"{__name__}:parallel_env")
    pettingzoo.register("aec", ID, entry_point=f"{__name__}:env")
