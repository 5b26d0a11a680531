"""A federation inside one process: Flower's own messages, ClientApps and strategies, and no processes to wait for."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Strategy
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from potluck.flower import Incentivized, contributed_samples, contribution
from potluck.flower.consortium import Consortium, make_consortium, write_private
from potluck.flower.state import read_about
from potluck.ledger import Account, Row, reading
from potluck.scenario import Scenario, Silos, mechanism_of

TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 7, 1, 1  # what a process of Flower is told
START = ArrayRecord([np.zeros(3, np.float32), np.ones((2, 2), np.float32)])


def scenario_of(count: int = 4, **options: Any) -> Scenario:
    """A small consortium; constants, so that tests can compute by hand."""
    silos = Silos(count=count, profit=100.0, energy=2.0, communication=0.5, samples=120.0, redraw=())
    mechanism = options.pop("mechanism", mechanism_of("redistribution", intensity=5.0, schedule="constant"))
    return Scenario(energy_price=0.01, silos=silos, mechanism=mechanism, **options)


def precision(arrays: ArrayRecord) -> float:
    """Rises with the first array, as if it were trained."""
    return float(np.clip(0.1 + arrays.to_numpy_ndarrays()[0].mean(), 0, 1))


def client_app(agent: Any = 1.0, held: int = 120) -> ClientApp:
    """Training adds a hundredth to every number; evaluation reports how large they are."""
    app = ClientApp(mods=[contribution(agent)])

    @app.train()
    def fit(message: Message, context: Context) -> Message:
        del context
        samples = contributed_samples(held)
        arrays = [array + np.float32(0.01) for array in message.content["arrays"].to_numpy_ndarrays()]
        metrics = MetricRecord({"num-examples": samples, "loss": 0.5})
        return Message(RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics}), reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        del context
        metrics = MetricRecord({"num-examples": held // 4, "accuracy": precision(message.content["arrays"])})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


class LocalGrid(Grid):
    """Calls every node's ClientApp in turn. What strategies never ask of a grid is not there."""

    def __init__(self, consortium: Consortium, apps: list[Callable[[Message, Context], Message]]) -> None:
        self.apps = dict(enumerate(apps, start=1))
        self.consortium = consortium
        self.wire: list[bytes] | None = None
        """Everything that was sent either way, where a test asks for it."""
        self.tamper: Callable[[Message], Message] = lambda message: message
        self.replies: Callable[[Message], list[Message]] = lambda reply: [reply]
        self.sent: list[Message] = []

    def set_run(self, run: Run) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Run:
        return Run.create_empty(7)

    def create_message(self, *_: Any, **__: Any) -> Message:
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return list(self.apps)

    def get_nodes(self) -> Iterable[Any]:
        return []

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        raise NotImplementedError

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        raise NotImplementedError

    def context(self, node: int) -> Context:
        """As --node-config would make it."""
        silo = node - 1
        config = {
            "partition-id": silo,
            "terms": str(self.consortium.terms(silo)),
            "agent-state": str(self.consortium.state(silo)),
        }
        return Context(run_id=7, node_id=node, node_config=config, state=RecordDict(), run_config={})

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        del timeout
        found = []
        for message in messages:
            self._tap(message)
            node = message.metadata.dst_node_id
            self.sent.append(copy_of(message))
            reply = self.apps[node](self.tamper(copy_of(message)), self.context(node))
            for one in self.replies(reply):
                self._tap(one)
                found.append(one)
        return found

    def _tap(self, message: Message) -> None:
        if self.wire is None:
            return
        self.wire += [each.deflate() for each in get_all_nested_objects(message).values()]
        if message.has_error():
            self.wire.append(str(message.error.reason).encode())


def copy_of(message: Message) -> Message:
    """A message of its own, as another machine would have it."""
    records = {name: type(record)(dict(record)) for name, record in message.content.items()}
    copied = Message(
        RecordDict(records),
        message.metadata.dst_node_id,
        message.metadata.message_type,
        ttl=message.metadata.ttl,
        group_id=message.metadata.group_id,
    )
    copied.metadata.__dict__["_message_id"] = message.metadata.message_id
    return copied


def consortium_in(folder: Path, scenario: Scenario, agents: list[Any] | None = None) -> Consortium:
    """Keys, roster and terms."""
    return make_consortium(folder / "consortium", scenario, agents or [1.0] * scenario.silos.count)


def incentivized(consortium: Consortium, strategy: Strategy | None = None, **options: Any) -> Incentivized:
    """The coordinator of a consortium."""
    return Incentivized(
        FedAvg(fraction_evaluate=0.0) if strategy is None else strategy,
        scenario=consortium.scenario,
        ledger=consortium.ledger,
        **{
            "precision": precision,
            "patience": 0.0,
            "run": "trial",
            **options,
        },
    )


def rows(consortium: Consortium, **where: Any) -> list[Row]:
    """What the ledger says."""
    with reading(consortium.ledger) as book:
        return list(book.rows(**where))


def array(numbers: np.ndarray) -> Array:
    """As Flower wraps it."""
    return Array(numbers)


def state_of(consortium: Consortium, silo: int) -> dict[str, Any]:
    """What a silo's state file says of itself."""
    return read_about(consortium.state(silo))


def account_of(consortium: Consortium, silo: int) -> Account:
    """What a silo has accepted of its only run."""
    (membership,) = state_of(consortium, silo)["memberships"].values()
    return Account.from_bytes(membership["account"].encode())


def receipts_of(consortium: Consortium, silo: int) -> Path:
    """What a silo keeps of what the coordinator has signed."""
    return consortium.state(silo).with_name("agent.state.receipts")


def change_site(consortium: Consortium, silo: int, **values: object) -> None:
    """Write other values into a silo's own file."""
    place = consortium.terms(silo)
    kept = [line for line in place.read_text().splitlines() if line.partition(" ")[0] not in values]
    write_private(place, "\n".join([*kept, *(f"{name} = {value!r}" for name, value in values.items())]) + "\n")


def notices(grid: LocalGrid, node: int) -> list[Message]:
    """What a node was sent."""
    return [message for message in grid.sent if message.metadata.dst_node_id == node]


def played(consortium: Consortium, silo: int = 0) -> list[float | None]:
    """What a silo's slots were settled on."""
    return [row.contribution for row in rows(consortium, silo=f"silo-{silo}")]
