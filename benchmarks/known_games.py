"""Games that have nothing to do with federations: how far learnt play is from the solution, against slots played.

    python benchmarks/known_games.py OUT.json --agents mbpg --seeds 5
    python benchmarks/known_games.py OUT.json --games cournot --agents mpgd --slots 30720 --seeds 5

Solutions are computed in double precision from the games' own numbers: Riccati equations (linear-quadratic,
one and two players), the first-order conditions (Cournot), and dynamic programming on a grid (pendulum). The error of a
player is what is said beside the game; 95% bootstrap intervals over seeds.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import potluck
from potluck.agents.known_games import Cournot, LinearQuadratic, Pendulum, riccati
from potluck.studies.intervals import interval
from potluck.training.config import RunConfig
from potluck.training.environments import EnvironmentConfig
from potluck.training.evaluation import long_term
from potluck.training.job import Job
from potluck.training.lanes import each_lane
from potluck.training.locks import claim
from potluck.training.run import advance

EVALUATION = 64
"""Games in which play is compared with the solution."""
Play = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Observations, actions and payoffs, [seeds, games, slots, players, …]."""


def swing_up(angles: int = 121, speeds: int = 121, torques: int = 17) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """The pendulum's best torque by dynamic programming over a game's 200 slots, on a grid of angles and speeds."""
    angle, speed = np.linspace(-np.pi, np.pi, angles), np.linspace(-8, 8, speeds)
    torque = np.linspace(-2, 2, torques)
    a, s, f = np.meshgrid(angle, speed, torque, indexing="ij")
    paid = -(a**2 + 0.1 * s**2 + 0.001 * f**2)
    next_speed = np.clip(s + (15 * np.sin(a) + 3 * f) * 0.05, -8, 8)
    next_angle = (a + 0.05 * next_speed + np.pi) % (2 * np.pi)
    i, j = next_angle / (2 * np.pi) * (angles - 1), (next_speed + 8) / 16 * (speeds - 1)
    i0, j0 = np.minimum(i.astype(int), angles - 2), np.minimum(j.astype(int), speeds - 2)
    di, dj = i - i0, j - j0
    value, best = np.zeros((angles, speeds)), []
    for _ in range(Pendulum.horizon):
        low = (1 - dj) * value[i0, j0] + dj * value[i0, j0 + 1]
        high = (1 - dj) * value[i0 + 1, j0] + dj * value[i0 + 1, j0 + 1]
        worth = paid + (1 - di) * low + di * high
        best.append(torque[worth.argmax(-1)])
        value = worth.max(-1)
    policy = jnp.asarray(np.stack(best[::-1]), jnp.float32)

    def play(seen: jax.Array, slot: jax.Array) -> jax.Array:
        at = (jnp.arctan2(seen[1], seen[0]) + jnp.pi) / (2 * jnp.pi) * (angles - 1), (seen[2] + 8) / 16 * (speeds - 1)
        torque: jax.Array = jax.scipy.ndimage.map_coordinates(policy[slot], list(at), order=1)
        return (torque / 4 + 0.5)[None]

    return play


def trace(game: Any, choose: Callable[[Any, jax.Array, jax.Array], tuple[Any, jax.Array]], memory: Any) -> Play:
    """Games of `choose`, always the same ones."""

    def one(key: jax.Array) -> Any:
        resetting, stepping = jax.random.split(key)

        def slot(carry: Any, at: Any) -> Any:
            (state, memory), (number, key) = carry, at
            seen = game.observe(state)
            memory, actions = choose(memory, seen, number)
            state, paid, _ = game.step(state, actions, key)
            return (state, memory), (seen, actions, paid)

        keys = jax.random.split(stepping, game.horizon)
        return jax.lax.scan(slot, (game.reset(resetting), memory), (jnp.arange(game.horizon), keys))[1]

    played: Play = jax.vmap(one)(jax.random.split(jax.random.key(2**31 - 1), EVALUATION))
    return played


def solved(game: Any, act: Callable[[jax.Array, jax.Array], jax.Array], discount: float) -> np.ndarray:
    """Long-term payoff of each player where all play the solution."""
    _, _, paid = jax.jit(lambda: trace(game, lambda memory, seen, slot: (memory, act(seen, slot)), None))()
    return np.asarray(jax.vmap(lambda one: long_term(one, discount))(paid).mean(0))


Error = Callable[[Play], np.ndarray]


def cournot() -> tuple[EnvironmentConfig, Error, str]:
    """Three firms."""
    config = potluck.environment("cournot", discount=0.95)
    nash = Cournot().nash()
    return config, lambda play: np.abs(play[1][..., 0].mean((1, 2)) - nash).max(-1), "largest |mean quantity − Nash|"


def linear_quadratic(two: bool) -> tuple[EnvironmentConfig, Error, str]:
    """One who pushes, or two who want different things."""
    settings: dict[str, Any] = {"push": [[0.0, 0.5], [0.3, 0.3]], "price": [[1.0, 0.2], [0.2, 1.0]]} if two else {}
    config = potluck.environment("linear-quadratic", discount=0.95, **settings)
    game = LinearQuadratic(**settings)
    gains = riccati(game, 0.95)

    def nash(seen: Any, slot: Any) -> Any:
        forces = -jnp.einsum("ni,ni->n", jnp.asarray(gains, jnp.float32)[slot], seen)
        return jnp.clip(forces[:, None] / game.bound / 2 + 0.5, 0, 1)

    if two:

        def apart(play: Play) -> np.ndarray:
            """Root mean square over games and slots of a − a_Nash(x), in the box."""
            forces = -np.einsum("tni,sgtni->sgtn", gains, play[0])
            wanted = np.clip(forces / float(game.bound) / 2 + 0.5, 0, 1)
            return np.asarray(np.sqrt(np.mean((play[1][..., 0] - wanted) ** 2, (1, 2))).max(-1))

        return config, apart, "largest root mean square of a − a_Nash"
    best = solved(game, nash, 0.95)
    nothing = solved(game, lambda seen, _: 0.5 + 0 * nash(seen, 0), 0.95)
    return config, _short(best, nothing, 0.95), "share of what the best force gains over none that is missing"


def pendulum() -> tuple[EnvironmentConfig, Error, str]:
    """One torque; the score of a game is the sum of 200 payoffs."""
    swing = swing_up()
    best = solved(Pendulum(), lambda seen, slot: swing(seen[0], slot)[None], 1.0) * 200
    print(f"pendulum: dynamic programming scores {best[0]:.1f}", flush=True)
    return potluck.environment("pendulum", discount=0.99), lambda play: play[2].sum(2).mean((1, 2)), "score of a game"


def _short(best: np.ndarray, nothing: np.ndarray, discount: float) -> Error:
    def short(play: Play) -> np.ndarray:
        weights = discount ** np.arange(play[2].shape[2])
        earned = np.einsum("t,sgtn->sn", weights / weights.sum(), play[2]) / EVALUATION
        return np.asarray(((best - earned) / (best - nothing)).max(-1))

    return short


GAMES: dict[str, tuple[Callable[[], tuple[EnvironmentConfig, Error, str]], int, int]] = {
    "linear-quadratic": (lambda: linear_quadratic(False), 4, 2048),
    "linear-quadratic-2": (lambda: linear_quadratic(True), 4, 4096),
    "cournot": (cournot, 4, 2048),
    "pendulum": (pendulum, 4, 5120),
}
"""What is played, in how many games at once, for how many slots."""


def learn(name: str, agent: str, asked: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Train chunk by chunk, and say after each how far play is from the solution."""
    make, games, slots = GAMES[name]
    config, error, what = make()
    run = RunConfig(config, agent, slots=asked.slots or slots, seeds=asked.seeds, games=games, looks=asked.looks)
    folder.mkdir(parents=True)
    job, begun, rows = Job.of_run(run, folder), time.monotonic(), []

    @eqx.filter_jit
    def play(agents: Any) -> Play:
        def lane(setup: Any, agents: Any) -> Play:
            game, learner = setup.environment, setup.learner
            memory = jax.vmap(learner.initial_memory, axis_size=game.players)(agents)
            return trace(game, lambda memory, seen, _: jax.vmap(learner.play)(agents, memory, seen), memory)

        return each_lane(lane, job.lanes, agents)

    for progress in advance(job, None, 0.0, claim(folder)):
        checkpoint = job.newest()
        assert checkpoint is not None
        seen, actions, payoffs = map(np.asarray, play(checkpoint.runs.agents))
        found = error((seen, actions, payoffs))
        row = {"game": name, "agent": agent, "slots": progress.slots, "what": what, **asdict(interval(found))}
        rows.append({**row, "by_seed": found.round(5).tolist(), "seconds": round(time.monotonic() - begun, 1)})
        print(f"{name} {agent} {progress.slots}: {row['mean']:.4f} ({row['low']:.4f} … {row['high']:.4f})", flush=True)
    return rows


def main() -> None:
    """Measure, say every look, and write all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--games", nargs="+", choices=tuple(GAMES), default=tuple(GAMES))
    parser.add_argument("--agents", nargs="+", default=("mbpg",))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--slots", type=int, default=0, help="of each seed; the game's own otherwise")
    parser.add_argument("--looks", type=int, default=16, help="at the results, at least")
    asked = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in asked.games:
            for agent in asked.agents:
                rows += learn(name, agent, asked, Path(scratch) / f"{name}-{agent}")
                asked.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
