"""The server's side: a wrapper around any Flower strategy that pays silos for what they bring.

    strategy = Incentivized(FedAvg(), scenario="scenario.toml", ledger="ledger.db")
    strategy.start(grid, initial_arrays, num_rounds=30, timeout=600)

It delegates the four hooks, as Flower's wrappers for differential privacy do, and inherits `start`.
"""

import copy
import logging
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.exception import AggregationError, InconsistentMessageReplies
from flwr.serverapp.strategy import Result, Strategy

from potluck.errors import PotluckError
from potluck.flower.coordinator import Books, open_books, public_mechanism, rules_of, unit_of
from potluck.flower.replies import Asked, Heard, Refused, sift, sift_evaluations, signed_ones
from potluck.flower.wire import RECORD, Notice
from potluck.flower.wrapped import layers, who_is_there, with_those
from potluck.ledger import read_key, read_public
from potluck.scenario import Scenario, load

LOG = logging.getLogger("flwr")
CLOSING = 60.0
"""Seconds, at most, to hand over the last settlement when a run is over."""


class Incentivized(Strategy):
    """Any strategy, and after every slot a settlement by the scenario's mechanism in the ledger.

    `precision` is a function of the global model, on the server's held-out data, or the name of a metric that silos
    report when the strategy has them evaluate. `key` is the coordinator's private key, `silos` every silo's name and
    public key in the scenario's order, or a TOML file of them; beside the ledger, coordinator.key and silos.toml, if
    they are left out. `run` names the run in the ledger: under the same name a coordinator that was stopped goes on
    where it was; otherwise Flower's number for the run is its name. Before the first slot the coordinator waits
    `patience` seconds for all silos, later for any; then the slot goes on with those who are there.

    A silo that does not answer in time, or not as it should, is settled as one that brings nothing.
    """

    def __init__(
        self,
        strategy: Strategy,
        *,
        scenario: Scenario | str | Path,
        ledger: str | Path,
        precision: Callable[[ArrayRecord], float] | str = "accuracy",
        key: Ed25519PrivateKey | str | Path | None = None,
        silos: Mapping[str, str | bytes] | str | Path | None = None,
        run: str | None = None,
        patience: float = 60.0,
    ) -> None:
        super().__init__()
        self.strategy = strategy
        self.scenario = scenario if isinstance(scenario, Scenario) else load(scenario)
        self._mechanism = public_mechanism(self.scenario)
        self._ledger, self._run, self._patience = Path(ledger), run, patience
        place = self._ledger.with_name("coordinator.key") if key is None else key
        self._key = place if isinstance(place, Ed25519PrivateKey) else read_key(Path(place))
        self._silos = _roster(self._ledger.with_name("silos.toml") if silos is None else silos)
        self._precision = precision
        self._innermost = layers(strategy)[-1]
        self._weighted_by = str(getattr(self._innermost, "weighted_by_key", "num-examples"))
        self._check()
        self._books: Books | None = None
        self._nodes: dict[int, int] = {}
        """Which silo a node answered for."""
        self._heard: list[Heard] = []
        self._marginal: np.ndarray | None = None
        self._sent = self._arrays = ArrayRecord()
        """The global model as it was sent in this slot, and as it is."""
        self._timeout = math.inf

    def _check(self) -> None:
        count = self.scenario.silos.count
        if len(self._silos) != count:
            raise PotluckError(
                f": the scenario has {count} silos, and {len(self._silos)} keys are given", field="silos"
            )
        if getattr(self._innermost, "fraction_train", 1.0) < 1:
            raise PotluckError(
                "must be 1: a silo that is not asked cannot contribute, and would pay for that", field="fraction_train"
            )
        if any(getattr(layer, "accountant", None) is not None for layer in layers(self.strategy)):
            raise PotluckError(
                "must be left out: Flower's accounts of privacy want all silos in every slot, with equal weights",
                field="accountant",
            )
        federated = isinstance(self._precision, str)
        if federated and getattr(self._innermost, "fraction_evaluate", 1.0) == 0:
            raise PotluckError(
                f"must be above 0: silos measure {self._precision!r}; or let precision be a function of the model",
                field="fraction_evaluate",
            )
        if federated and "marginal" in self._mechanism.needs:
            raise PotluckError(
                f"must be a function of the model: {self.scenario.mechanism.kind} measures what each silo adds",
                field="precision",
            )

    def summary(self) -> None:
        """Say by what slots are settled, then what the strategy says of itself."""
        LOG.info("\t├──> Potluck: %s, ledger %s", self.scenario.mechanism.kind, self._ledger)
        self.strategy.summary()

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Flower's own loop; then every silo is handed what it has not confirmed yet.

        `timeout` bounds the wait for answers in every slot: who is silent for so many seconds is absent.
        """
        self._timeout = timeout
        try:
            result = super().start(
                grid, initial_arrays, num_rounds, timeout, train_config, evaluate_config, evaluate_fn
            )
            try:
                self._hand_over(grid)
            except Exception as fault:  # of the ledger or the line: the trained model is not lost for that
                unexpected = not isinstance(fault, PotluckError)
                LOG.error("potluck: the last settlement could not be handed over: %s", fault, exc_info=unexpected)
        finally:
            if self._books is not None:
                self._books.close()
                self._books = None
        return result

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The strategy's messages, each with a record of its own for its silo."""
        self._sent = self._arrays = arrays
        wanted = self.scenario.silos.count if self._books is None else 1
        nodes = who_is_there(grid, wanted, self._patience)
        if self._books is None:
            self._books = self._open(grid, arrays)
        if not nodes:
            LOG.warning("potluck: slot %d: no silo is connected", self._books.slot)
            return []
        with with_those(nodes, self._innermost, grid) as those:
            messages = list(self.strategy.configure_train(server_round, arrays, config, those))
        return [self._with_notice(message) for message in messages]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The strategy's aggregate of the replies that count; the slot is settled if the server can measure P."""
        books = self._opened
        self._heard, refused = sift(replies, self._asked)
        self._name(refused)
        for one in signed_ones(self._heard, refused):
            self._nodes[one.node] = one.place
            books.hear(one.place, one.claim)
        bringing = [_bare(one.message) for one in self._heard if one.claim.amount > 0]
        before = copy.deepcopy(self.strategy) if "marginal" in self._mechanism.needs else None
        arrays, metrics = self._aggregated(server_round, bringing) if bringing else (None, None)
        if arrays is not None:
            self._arrays = arrays
        if callable(self._precision):
            reached = self._measure(self._arrays)
            if before is not None:
                self._marginal = self._leave_one_out(before, server_round, reached)
            self._settle(reached)
        return arrays, metrics

    def _aggregated(self, server_round: int, bringing: list[Message]) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Where the strategy cannot use what was brought the model stays, and the slot is settled all the same."""
        try:
            return self.strategy.aggregate_train(server_round, bringing)
        except (AggregationError, InconsistentMessageReplies) as fault:
            LOG.error("potluck: slot %d: the strategy could not aggregate: %s", self._opened.slot, _printable(fault))
            return None, None

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The strategy's messages; a slot that is settled already is told with them."""
        messages = self._evaluations(server_round, arrays, config, grid)
        return [self._with_notice(message) for message in messages]

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """The strategy's aggregate of the evaluations that can be averaged; the slot is settled if they measure P."""
        metric = self._precision if isinstance(self._precision, str) else None
        replies = list(replies)
        self._confirm(replies)
        good, refused = sift_evaluations(replies, self._weighted_by, metric, self._nodes)
        self._name(refused)
        metrics = self.strategy.aggregate_evaluate(server_round, [_bare(reply) for reply in good]) if good else None
        if metric is not None:
            if metrics is None:
                LOG.warning("potluck: slot %d: nobody measured %s; it stays as it was", self._opened.slot, metric)
            self._settle(self._opened.precision if metrics is None else _one(metrics, metric))
        return metrics

    @property
    def _opened(self) -> Books:
        if self._books is None:
            raise PotluckError("the run has not begun; call configure_train first")
        return self._books

    @property
    def _asked(self) -> Asked:
        books = self._opened
        return Asked(books.opening, books.slot, books.rules.basis, self._weighted_by, self._sent)

    def _open(self, grid: Grid, arrays: ArrayRecord) -> Books:
        run = self._run if self._run is not None else str(grid.run.run_id)
        reached = self._measure(arrays) if callable(self._precision) else self._evaluated(grid, arrays)
        rules = rules_of(self.scenario, self._mechanism, self._weighted_by, reached)
        unit = unit_of(self.scenario)
        books = open_books(self._ledger, self._key, run, self._silos, self._mechanism, unit, rules)
        if books.slot > 1:
            LOG.info("potluck: run %s goes on with slot %d", run, books.slot)
        return books

    def _measure(self, arrays: ArrayRecord) -> float:
        assert callable(self._precision)
        reached = float(self._precision(arrays))
        if not 0 <= reached <= 1:
            raise PotluckError(f"must be in [0, 1], got {reached}", field="precision")
        return reached

    def _evaluated(self, grid: Grid, arrays: ArrayRecord) -> float:
        """P of the untrained model where only silos can measure it: one evaluation before the first slot."""
        alike = ConfigRecord({"weighted-by": self._weighted_by})
        messages = [self._with(message, alike) for message in self._evaluations(0, arrays, ConfigRecord(), grid)]
        replies = list(grid.send_and_receive(messages, timeout=self._timeout))
        good, refused = sift_evaluations(replies, self._weighted_by, str(self._precision))
        self._name(refused, 0)
        metrics = self.strategy.aggregate_evaluate(0, good) if good else None
        return 0.0 if metrics is None else _one(metrics, str(self._precision))

    def _evaluations(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> list[Message]:
        nodes = who_is_there(grid, 1, 0.0)
        if not nodes:
            return []
        with with_those(nodes, self._innermost, grid) as those:
            return list(self.strategy.configure_evaluate(server_round, arrays, config, those))

    def _with_notice(self, message: Message) -> Message:
        return self._with(message, self._notice(message.metadata.dst_node_id).to_record())

    def _with(self, message: Message, record: ConfigRecord) -> Message:
        """A message of its own, with one more record: FedAvg lets all silos share one. It is stale after the slot."""
        known = message.metadata
        content = RecordDict({**message.content, RECORD: record})
        ttl = min(known.ttl, self._timeout)
        return Message(content, known.dst_node_id, known.message_type, ttl=ttl, group_id=known.group_id)

    def _notice(self, node: int, *, closing: bool = False) -> Notice:
        books = self._opened
        told = books.to_tell(self._nodes[node]) if node in self._nodes else ()
        bare = Notice(books.opening.run, books.slot, books.opening.to_bytes(), books.history, told, closing)
        return replace(bare, signature=self._key.sign(bare.signed_bytes()))

    def _settle(self, precision: float) -> None:
        books = self._opened
        claims: list[float | None] = [None] * len(self._silos)
        for one in self._heard:
            claims[one.place] = float(one.claim.amount)
        absent = [name for name, claim in zip(self._silos, claims, strict=True) if claim is None]
        if absent:
            LOG.warning("potluck: slot %d: absent, settled as bringing nothing: %s", books.slot, ", ".join(absent))
        books.settle(claims, precision, self._marginal)
        self._heard, self._marginal = [], None

    def _leave_one_out(self, before: Strategy, server_round: int, reached: float) -> np.ndarray:
        """P − P without silo n: the others' replies aggregated once more, as if n had sent nothing."""
        marginal = np.zeros(len(self._silos))
        for one in self._heard:
            if one.claim.amount > 0:
                others = [_bare(o.message) for o in self._heard if o.claim.amount > 0 and o.place != one.place]
                again = copy.deepcopy(before)
                arrays = again.aggregate_train(server_round, others)[0] if others else None
                marginal[one.place] = reached - self._measure(self._sent if arrays is None else arrays)
        return marginal

    def _confirm(self, replies: Iterable[Message]) -> None:
        """Take the words of those who say what they have received."""
        books = self._opened
        for reply in replies:
            if not reply.has_error() and RECORD in reply.content.config_records:
                heard, refused = sift([reply], self._asked)
                self._name(refused)
                for one in signed_ones(heard, refused):
                    books.hear(one.place, one.claim)

    def _hand_over(self, grid: Grid) -> None:
        """Tell every connected silo its last settlement, and keep its word for it."""
        if self._books is None:
            return
        connected = set(grid.get_node_ids())
        nodes = [node for node, place in self._nodes.items() if node in connected and self._books.to_tell(place)]
        messages = [
            Message(
                RecordDict({RECORD: self._notice(node, closing=True).to_record()}),
                node,
                MessageType.TRAIN,
                ttl=CLOSING,
            )
            for node in nodes
        ]
        if messages:
            self._confirm(grid.send_and_receive(messages, timeout=min(CLOSING, self._timeout)))
        self._books.keep_words()

    def _name(self, refused: Iterable[Refused], slot: int | None = None) -> None:
        for one in refused:
            number = self._opened.slot if slot is None else slot
            LOG.warning("potluck: slot %d: the answer of %s is refused: %s", number, one.who, _printable(one.why))


def _printable(text: object, most: int = 300) -> str:
    """What others said, as one line of a log that they cannot write more into."""
    plain = "".join(letter if letter.isprintable() else "�" for letter in str(text)[: most + 1])
    return plain if len(plain) <= most else f"{plain[:most]}…"


def _one(metrics: MetricRecord, name: str) -> float:
    value = metrics.get(name)
    if not isinstance(value, int | float):
        raise PotluckError(f": the strategy's own aggregate of evaluations has no number {name!r}", field="precision")
    return float(value)


def _roster(silos: Mapping[str, str | bytes] | str | Path) -> dict[str, bytes]:
    """Names and public keys, as given or as a file lists them."""
    if isinstance(silos, str | Path):
        try:
            silos = tomllib.loads(Path(silos).read_text(encoding="utf-8"))
        except (OSError, ValueError) as fault:
            raise PotluckError(f': {fault}; write one line per silo, name = "its public key"', field="silos") from None
    return {name: key if isinstance(key, bytes) else read_public(str(key)) for name, key in silos.items()}


def _bare(message: Message) -> Message:
    """As the strategy would have got it without Potluck."""
    if RECORD in message.content.config_records:
        del message.content[RECORD]
    return message
