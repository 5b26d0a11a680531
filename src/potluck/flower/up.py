"""One command's worth of federation: a consortium on this machine, its processes, a run, and a look at the ledger."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from potluck.errors import PotluckError
from potluck.flower.consortium import Consortium, make_consortium
from potluck.flower.coordinator import public_mechanism, rules_of
from potluck.flower.deciders import FixedShare, named
from potluck.flower.federation import Federation, deployed, simulated
from potluck.ledger import Row, reading
from potluck.scenario import FederationConfig, Scenario, render
from potluck.training.locks import claim

LOOKING = 0.5
"""Seconds between two looks at the ledger."""


@dataclass(frozen=True)
class Trial:
    """What is played, by whom, and where its files go."""

    scenario: Scenario
    slots: int
    agents: tuple[str | float | Path, ...]
    folder: Path
    tls: bool = False
    simulation: bool = False
    timeout: float = 600.0
    """Seconds that a silo may take for a slot."""

    def __post_init__(self) -> None:
        count = self.scenario.silos.count
        if not isinstance(self.scenario.precision, FederationConfig):
            raise PotluckError("must be 'fedavg': this federation trains for real", field="precision.source")
        if len(self.agents) != count:
            raise PotluckError(
                f": one for all, or one for each of {count} silos; got {len(self.agents)}", field="policy"
            )
        rules = rules_of(self.scenario, public_mechanism(self.scenario), "num-examples", 0.0)
        for agent in set(self.agents):
            if isinstance(agent, str):
                named(agent, rules, count, 1)
            elif not isinstance(agent, Path):
                FixedShare(agent)
        if self.tls and self.simulation:
            raise PotluckError(": simulated silos are processes of one machine; leave one of them out", field="tls")


def example_app() -> Path:
    """The Flower app on digits: beside the package in a checkout, inside it where it was installed."""
    for place in (Path(__file__).parents[3] / "examples" / "flower-digits", Path(__file__).parent / "digits"):
        if (place / "pyproject.toml").is_file():
            return place
    raise PotluckError("the example app examples/flower-digits is missing; install Potluck again")


def play(trial: Trial, watch: Callable[[list[Row]], None] = lambda _: None) -> tuple[Consortium, str]:
    """Start everything, play the slots, stop everything; the consortium's files stay. `watch` is told of every slot.

    In a folder that holds a consortium, the same silos play on: agents know what they learnt, the ledger goes on.
    """
    trial.folder.mkdir(parents=True, exist_ok=True)
    with claim(trial.folder, "running a federation"):
        consortium = _consortium(trial)
        run = f"run-{_runs(consortium) + 1}"
        config: dict[str, str | int | float] = {
            "scenario": str(consortium.scenario),
            "ledger": str(consortium.ledger),
            "run": run,
            "num-server-rounds": trial.slots,
            "timeout": trial.timeout,
        }
        if trial.simulation:
            config |= {"terms": str(consortium.terms("{partition-id}"))}
            config |= {"agent-state": str(consortium.state("{partition-id}"))}
        with _started(trial, consortium) as federation:
            federation.start_run(example_app(), config, run)
            _follow(federation, consortium, run, trial.slots, watch)
    return consortium, run


def _consortium(trial: Trial) -> Consortium:
    names = tuple(f"silo-{silo}" for silo in range(trial.scenario.silos.count))
    found = Consortium(trial.folder.resolve(), names)
    if not found.roster.exists():
        make_consortium(found.folder, trial.scenario, trial.agents)
    if found.terms(len(names)).exists() or not found.terms(len(names) - 1).exists():
        raise PotluckError(f"{trial.folder}: holds a consortium of other silos; name another folder", field="out")
    found.scenario.write_text(render(trial.scenario), encoding="utf-8")
    for silo, agent in enumerate(trial.agents):
        found.choose(silo, agent)
    return found


def _started(trial: Trial, consortium: Consortium) -> AbstractContextManager[Federation]:
    if trial.simulation:
        return simulated(consortium.folder, len(consortium.names))
    return deployed(consortium, tls=trial.tls)


def _runs(consortium: Consortium) -> int:
    if not consortium.ledger.exists():
        return 0
    with reading(consortium.ledger) as book:
        return len(book.runs())


def _follow(
    federation: Federation, consortium: Consortium, run: str, slots: int, watch: Callable[[list[Row]], None]
) -> None:
    """Tell of every slot as it is settled, until the run is over; raise if it failed.

    `flwr run --stream` ends with 0 whatever became of the run: the ledger says whether it came to its end.
    """
    told = 0
    going = True
    while going:
        going = federation.group.running(run)
        for slot in _settled(consortium, run, after=told):
            watch(slot)
            told = slot[0].slot
        if going:
            federation.group.check(["superlink"])
            time.sleep(LOOKING)
    if (code := federation.group.code(run)) != 0 or told < slots:
        words, log = federation.group.last_words(run), federation.group.log(run)
        kept = f"; {consortium.ledger} keeps what was played" if told else ""
        raise PotluckError(f"the run ended with {code} after {told} of {slots} slots: {words}; see {log}{kept}")


def _settled(consortium: Consortium, run: str, after: int) -> Iterator[list[Row]]:
    if not consortium.ledger.exists():
        return
    with reading(consortium.ledger) as book:
        if run not in [opening.run for opening in book.runs()]:
            return
        rows = [row for row in book.rows(run=run) if row.slot > after]
    width = len(consortium.names)
    yield from (rows[at : at + width] for at in range(0, len(rows), width))
