"""The coordinator's books: what the mechanism remembers, the public record, and the ledger that both come from.

The ledger is the only state. After a restart the mechanism settles the slots on file once more, and stands where it
stood.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jaxtyping import PyTree

from potluck.errors import PotluckError
from potluck.flower.wire import Claim, History, Rules
from potluck.ledger import Countersignature, Ledger, Opening, Statement, reading
from potluck.mechanisms import Declared, Facts, Mechanism, first_state, settle_slot
from potluck.mechanisms.build import try_out
from potluck.scenario import Normal, Scenario

LOG = logging.getLogger("flwr")


def public_mechanism(scenario: Scenario) -> Mechanism[Any]:
    """The scenario's mechanism, without anybody's terms: what lives on declarations must have them written down."""
    unknown = jnp.full(scenario.silos.count, jnp.nan)
    kind = scenario.mechanism.kind
    try:
        mechanism = scenario.mechanism.build(Declared(unknown, unknown))
        try_out(mechanism, jnp.full(scenario.silos.count, unit_of(scenario)))
    except PotluckError as fault:
        hint = "; where it lives on what silos declare, list that in the scenario" if "finite" in fault.message else ""
        raise PotluckError(f"{kind} {fault.message}{hint}", field="mechanism") from fault
    return mechanism


def unit_of(scenario: Scenario) -> float:
    """Samples that count as a contribution of 1 where silos say how many they bring, and not which share."""
    sizes = scenario.silos.samples
    nominal = sizes.mean if isinstance(sizes, Normal) else float(np.mean(sizes))
    return float(getattr(scenario.mechanism, "unit", nominal))


def rules_of(scenario: Scenario, mechanism: Mechanism[Any], weighted_by: str, precision: float) -> Rules:
    """What holds for a run of this scenario."""
    return Rules(
        horizon=scenario.horizon,
        history=scenario.history,
        discount=scenario.discount,
        observation=tuple(scenario.observation),
        basis="samples" if "samples" in mechanism.needs else "fraction",
        weighted_by=weighted_by,
        precision=precision,
        mechanism=scenario.mechanism.model_dump(mode="json"),
    )


MOST_TOLD = 100
"""Settlements in one message."""


class Books:
    """One run: settles slots one after the other, and knows what each silo has still to be told."""

    def __init__(
        self, ledger: Ledger, opening: Opening, mechanism: Mechanism[Any], unit: float, signed_rules: Rules
    ) -> None:
        self.opening, self.rules = opening, signed_rules
        self._ledger, self._mechanism, self._unit = ledger, mechanism, unit
        silos = len(opening.silos)
        self.history = History.blank(signed_rules.history, silos)
        self.precision = signed_rules.precision
        self.slot = 1
        """The slot to come."""
        self._state: PyTree = first_state(mechanism, jnp.asarray(signed_rules.precision, jnp.float32))
        self._told: dict[int, list[Statement]] = {}
        """By silo, what it has not confirmed; a silo that has not been heard yet is not in it."""
        self._words: dict[bytes, Countersignature] = {}

    def settle(
        self, claims: Sequence[float | None], precision: float, marginal: np.ndarray | None = None
    ) -> list[Statement]:
        """Settle the slot to come, on the disk. A silo without a claim is absent: it is settled as bringing nothing.

        Were absence cheaper than bringing nothing, whoever brings little would rather be silent.
        """
        settled, contributions = self._settled(claims, precision, marginal)
        statements = self._ledger.record(
            self.opening.run,
            self.slot,
            signal=float(settled.signal),
            precision=precision,
            contributions=claims,
            transfers=[float(transfer) for transfer in settled.transfers],
            countersignatures=list(self._words.values()),
        )
        self._words.clear()
        for place, told in self._told.items():
            told.append(statements[place])
        self._advance(settled.state, contributions, float(settled.signal), precision)
        return statements

    def _settled(
        self, claims: Sequence[float | None], precision: float, marginal: np.ndarray | None
    ) -> tuple[Any, np.ndarray]:
        amounts = np.array([0.0 if claim is None else claim for claim in claims], np.float32)
        samples = amounts if self.rules.basis == "samples" else None
        contributions = amounts if samples is None else amounts / np.float32(self._unit)
        facts = Facts(
            jnp.asarray(contributions),
            jnp.asarray(precision, jnp.float32),
            samples=None if samples is None else jnp.asarray(samples),
            marginal=None if marginal is None else jnp.asarray(marginal, jnp.float32),
        )
        return settle_slot(self._mechanism, self._state, facts), contributions

    def _advance(self, state: PyTree, contributions: np.ndarray, signal: float, precision: float) -> None:
        self._state, self.precision = state, precision
        self.history = self.history.after(contributions, signal, precision)
        self.slot += 1

    def replay(self, slots: Sequence[Sequence[Any]]) -> None:
        """Go through the slots on file as if they were settled now, without writing."""
        for rows in slots:
            settled, contributions = self._settled([row.contribution for row in rows], rows[0].precision, None)
            self._advance(settled.state, contributions, rows[0].signal, rows[0].precision)

    def hear(self, place: int, claim: Claim) -> None:
        """A silo says how far it has received: keep its word for that, and know what it lacks."""
        silo, last = self.opening.silos[place].name, self.slot - 1
        received = min(max(claim.received, 0), last)
        told = [statement for statement in self._told.get(place, ()) if statement.slot > received]
        next_ones = range(received + 1, min(last, received + MOST_TOLD) + 1)
        if [statement.slot for statement in told[:MOST_TOLD]] != list(next_ones):  # it is new, or its state is older
            told = self._ledger.statements(self.opening.run, silo, after=received, most=MOST_TOLD)
        self._told[place] = told
        if claim.countersignature:
            try:
                word = Countersignature.from_bytes(claim.countersignature)
                self._ledger.check(word)
                self._words[claim.countersignature] = word
            except PotluckError as fault:
                LOG.warning("potluck: %s: its countersignature is refused: %s", silo, fault)

    def to_tell(self, place: int) -> tuple[bytes, ...]:
        """What a silo has not confirmed, oldest first, and not more than a message should carry."""
        return tuple(statement.to_bytes() for statement in self._told.get(place, [])[:MOST_TOLD])

    def keep_words(self) -> None:
        """Write down the countersignatures that no slot has taken along."""
        if self._words:
            self._ledger.countersign(list(self._words.values()))
            self._words.clear()

    def close(self) -> None:
        """Let the next writer in."""
        self._ledger.close()


def open_books(
    place: Path,
    key: Ed25519PrivateKey,
    run: str,
    silos: Mapping[str, bytes],
    mechanism: Mechanism[Any],
    unit: float,
    rules: Rules,
) -> Books:
    """Begin a run, or go on with one that is in the ledger under the same rules."""
    ledger = Ledger(place, key)
    try:
        with reading(place) as book:
            known = next((opening for opening in book.runs() if opening.run == run), None)
            rows = [] if known is None else list(book.rows(run=run))
        if known is not None:
            # The untrained model was measured when the run began; what is at hand now may be trained already.
            rules = replace(rules, precision=Rules.from_text(known.rules).precision)
        opening = ledger.begin(run, dict(silos), balanced=mechanism.balanced, rules=rules.to_text())
        books = Books(ledger, opening, mechanism, unit, rules)
        if rows and "marginal" in mechanism.needs:
            raise PotluckError(
                f"run {run} cannot be resumed: {rules.mechanism['kind']} is settled on what only a live slot can "
                "measure; name a new run"
            )
        width = len(opening.silos)
        books.replay([rows[at : at + width] for at in range(0, len(rows), width)])
    except BaseException:
        ledger.close()
        raise
    return books
