"""The silo's side: a client mod around an existing ClientApp.

    app = ClientApp(mods=[contribution(agent="policy.potluck")])

It receives and countersigns settlements, lets the agent decide, has the app train on that much, and sends what was
claimed. What goes wrong is told in the silo's own log; outside, only that something did.
"""

import dataclasses
import logging
from dataclasses import dataclass
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flwr.app import Context, Error, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp.typing import ClientAppCallable, Mod
from flwr.common.constant import ErrorCode
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from potluck.errors import PotluckError
from potluck.flower.compiled import compiled_beside
from potluck.flower.deciders import Decider, Situation, decider
from potluck.flower.site import Site, named_file, read_site
from potluck.flower.state import Decision, Membership, SiloState, keep_receipts, load_state, locked, save_state
from potluck.flower.trim import Bringing, bringing
from potluck.flower.wire import RECORD, Claim, Notice, Rules
from potluck.game import Own, Record, observe_one
from potluck.game.observation import observation_size
from potluck.ledger import MICRO, Account, Opening, Statement, countersign, join, public_key, receive
from potluck.ledger.keys import signed

LOG = logging.getLogger("flwr")
EXAMPLES = "num-examples"


def contribution(agent: str | float | Path = "pretrained") -> Mod:
    """A mod that lets an agent decide how much of its data the silo brings in each slot.

    `agent` is a policy file written by `potluck export`, an agent's name, or a fixed share. `pretrained`, who plays
    unless told otherwise, has learnt from other federations; any other learner begins afresh.
    What the silo's own terms file says of `agent` and `cap` comes first. --node-config names that file (`terms`) and
    the one in which the agent remembers (`agent-state`). Where no file is named, messages of a coordinator without
    Potluck pass unchanged; a silo that has one trains in slots alone, or a coordinator could pass its agent by.
    """

    def mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        noticed = RECORD in message.content
        if not noticed and not (context.node_config.get("terms") or context.run_config.get("terms")):
            return call_next(message, context)
        try:
            if noticed:
                return _answer(agent, message, context, call_next)
            return _evaluated(message, context, call_next, EXAMPLES)
        except PotluckError as fault:
            LOG.error("potluck: %s", fault)
            return _silent(message, "this silo cannot take part in the slot; its own log says why")
        except Exception as fault:  # whatever an app may do: its words may hold the silo's numbers
            LOG.exception("potluck: the app failed")
            return _silent(message, f"{type(fault).__name__} in this silo's app; its own log says more")

    return mod


def _silent(message: Message, reason: str) -> Message:
    return Message(Error(ErrorCode.MOD_FAILED_PRECONDITION, reason), reply_to=message)


@dataclass
class _Turn:
    """One message at work."""

    notice: Notice
    rules: Rules
    site: Site
    key: Ed25519PrivateKey
    place: Path
    decider: Decider
    state: SiloState
    run: str
    """The opening's hash."""
    size: int
    accepted: list[Statement] = dataclasses.field(default_factory=list)
    """Settlements that are not on the disk yet."""
    disputed: list[Statement] = dataclasses.field(default_factory=list)
    """What the coordinator has signed and the silo does not accept: evidence."""

    @property
    def membership(self) -> Membership:
        return self.state.memberships[self.run]

    def keep(self, membership: Membership, **changes: object) -> None:
        """Remember."""
        memberships = {**self.state.memberships, self.run: membership}
        self.state = dataclasses.replace(self.state, memberships=memberships, **changes)  # type: ignore[arg-type]

    def save(self) -> None:
        """Remember on the disk."""
        keep_receipts(self.place, self.accepted, self.disputed)
        self.accepted, self.disputed = [], []
        save_state(self.place, self.decider, self.state)

    def claim(self, amount: float) -> Claim:
        """Signed."""
        account = self.membership.account
        word = countersign(account, self.key).to_bytes() if account.last else b""
        bare = Claim(account.run, self.notice.slot, account.silo, amount, account.slot, word)
        return dataclasses.replace(bare, signature=self.key.sign(bare.signed_bytes()))


def _answer(agent: str | float | Path, message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    record = message.content.config_records[RECORD]
    if "weighted-by" in record:  # the untrained model is evaluated, before there is a run
        return _evaluated(message, context, call_next, str(record["weighted-by"]))
    notice = Notice.from_record(record)
    training = _trains(message)
    opening = Opening.from_bytes(notice.opening)
    rules = Rules.from_text(opening.rules)
    if not training and not notice.statements:
        return _evaluated(message, context, call_next, rules.weighted_by)
    place = named_file(context, "agent-state")
    with locked(place), compiled_beside(place):
        turn = _begin(agent, notice, opening, rules, context)
        _receive(turn)
        decision = _decide(turn) if training and not notice.closing else None
        turn.save()
    if decision is not None:
        return _train(turn, decision, message, context, call_next)
    if not training:
        return _evaluated(message, context, call_next, rules.weighted_by, turn.claim(0.0))
    return Message(RecordDict({RECORD: turn.claim(0.0).to_record()}), reply_to=message)


def _train(
    turn: _Turn, decision: Decision, message: Message, context: Context, call_next: ClientAppCallable
) -> Message:
    """Have the app train on what was decided, and remember on how much it did."""
    notice, rules = turn.notice, turn.rules
    if decision.share == 0:
        brought = RecordDict({"metrics": MetricRecord({rules.weighted_by: 0.0})})
        return _claimed(turn, Message(brought, reply_to=message), 0.0)
    with bringing(decision.share) as slot:
        reply = call_next(_bare(message), context)
    if reply.has_error():
        return _failed(message, reply)
    samples, held = _trained_on(slot)
    with locked(turn.place):
        turn.state = load_state(turn.place, turn.decider)  # a later slot may have come in between
        decisions = dict(turn.membership.decisions)
        if notice.slot in decisions:
            decisions[notice.slot] = dataclasses.replace(decision, samples=samples)
        turn.keep(dataclasses.replace(turn.membership, decisions=decisions), held=float(held))
        turn.save()
    return _claimed(turn, reply, decision.share if rules.basis == "fraction" else samples)


def _begin(agent: str | float | Path, notice: Notice, opening: Opening, rules: Rules, context: Context) -> _Turn:
    """Read the silo's files, and find its place in the run."""
    site, place = read_site(named_file(context, "terms")), named_file(context, "agent-state")
    key = site.private_key()
    joined = join(opening, site.coordinator_key(), public_key(key))
    if notice.run != joined.run:
        raise PotluckError(f"the notice speaks of run {notice.run}, and its opening of run {joined.run}")
    if not signed(joined.coordinator, notice.signature, notice.signed_bytes()):
        raise PotluckError(f"slot {notice.slot} of run {notice.run} is not asked for by the coordinator; it is refused")
    silos = len(opening.silos)
    size = observation_size(rules.observation, rules.history, silos)
    deciding = decider(agent, site, rules, silos, size)
    state = load_state(place, deciding)
    name = opening.hash.hex()
    if any(kept.account.run == joined.run for other, kept in state.memberships.items() if other != name):
        raise PotluckError(
            f"run {joined.run} was played before, with another opening; the coordinator must give a new run a new name"
        )
    known = state.memberships.get(name, Membership(joined, since=notice.slot))
    if notice.slot > max(known.account.slot, known.since - 1, *known.decisions) + 1:
        # It was away, or its state is an older copy: of the slots between it knows nothing.
        known = dataclasses.replace(known, since=notice.slot)
    state = dataclasses.replace(state, memberships={**state.memberships, name: known})
    return _Turn(notice, rules, site, key, place, deciding, state, name, size)


def _receive(turn: _Turn) -> None:
    """Take every settlement that is genuine, new and next; the agent is paid. The rest is refused, and said so."""
    membership, state = turn.membership, turn.state
    agent, earned, slots = state.agent, state.earned, state.slots
    newest = max(membership.decisions, default=0)
    for raw in turn.notice.statements:
        statement = None
        try:
            statement = Statement.from_bytes(raw)
            if statement.slot < membership.account.slot:
                continue  # older than what was received already
            account = receive(membership.account, statement)
            if account is membership.account:
                continue
            decision = membership.decisions.get(statement.slot)
            _check_claim(turn, statement, decision)
        except PotluckError as fault:
            LOG.warning("potluck: a settlement is refused: %s", fault)
            if statement is not None and signed(membership.account.coordinator, statement.signature, statement.hash):
                turn.disputed.append(statement)
            break
        transfer, payoff = statement.transfer / MICRO, None
        if decision is None or statement.contribution is None:
            earned += turn.site.profit * statement.precision + transfer
        else:
            payoff = decision.payoff(statement.precision, transfer)
            earned += payoff
        if statement.slot >= newest:  # an agent that has decided again since waits for the newer payoff alone
            agent = turn.decider.paid(agent, payoff)
        slots += 1
        open_ = {slot: kept for slot, kept in membership.decisions.items() if slot > statement.slot}
        membership = dataclasses.replace(membership, account=account, decisions=open_)
        turn.accepted.append(statement)
    if turn.accepted:
        turn.keep(membership, agent=agent, earned=earned, slots=slots)


def _check_claim(turn: _Turn, statement: Statement, decision: Decision | None) -> None:
    """A silo does not sign for a contribution that it never claimed."""
    if statement.contribution is None:
        return
    if decision is None and statement.slot < turn.membership.since:
        LOG.warning(
            "potluck: slot %d was settled on a contribution of %g, and this silo's state does not know of it",
            statement.slot,
            statement.contribution,
        )
        return
    claimed = None if decision is None else decision.share if turn.rules.basis == "fraction" else decision.samples
    if statement.contribution != claimed:
        raise PotluckError(
            f"slot {statement.slot} of run {statement.run} was settled on a contribution of "
            f"{statement.contribution:g}, and this silo claimed {'none' if claimed is None else f'{claimed:g}'}"
        )


def _decide(turn: _Turn) -> Decision:
    """The agent's contribution; the same slot again, the same answer."""
    membership, slot, site = turn.membership, turn.notice.slot, turn.site
    if slot <= membership.account.slot or any(slot < known for known in membership.decisions):
        raise PotluckError(f"slot {slot} of run {turn.notice.run} is over for this silo; the message is a replay")
    if slot in membership.decisions:
        known = membership.decisions[slot]
        if known.share > site.cap:  # the site has thought again
            known = dataclasses.replace(known, share=site.cap, samples=0)
            turn.keep(dataclasses.replace(membership, decisions={**membership.decisions, slot: known}))
        return known
    observation = _observation(turn, membership.account)
    situation = Situation(observation, first=slot == 1, last=slot == turn.rules.horizon)
    agent, share = turn.decider.decide(turn.state.agent, situation, site.cap)
    decision = Decision(share, site.profit, site.energy_price, site.energy, site.communication)
    recent = {past: cost for past, cost in membership.communication.items() if past > slot - turn.rules.history}
    decided = dataclasses.replace(
        membership,
        decisions={**membership.decisions, slot: decision},
        communication={**recent, slot: site.communication},
    )
    turn.keep(decided, agent=agent)
    return decision


def _observation(turn: _Turn, account: Account) -> Float[Array, " observation"]:
    """z_n, from the public record and what the silo has of its own."""
    history, slot, site, rules = turn.notice.history, turn.notice.slot, turn.site, turn.rules
    costs, held = turn.membership.communication, site.samples or turn.state.held
    past = [
        costs.get(slot - back, site.communication) if slot > back else 0.0 for back in range(1, len(history.signal) + 1)
    ]
    return _observe(
        # On basis samples a silo may bring more than the unit; policies have seen shares.
        Record(*map(_array, (np.minimum(history.contributions, 1.0), history.signal, history.precision))),
        Own(_array(past), _array(held), _array(site.profit), _array(site.energy_price * site.energy * held)),
        _array(account.place, int),
        _array(min(slot - 1, rules.horizon), int),
        rules.horizon,
        turn.decider.observes or rules.observation,
    )


def _array(numbers: ArrayLike, kind: type = float) -> Array:
    """By way of NumPy: JAX alone would compile something to convert them, in every process."""
    return jnp.asarray(np.asarray(numbers, np.int32 if kind is int else np.float32))


_observe = eqx.filter_jit(observe_one)
"""In one piece: every slot may run in a process of its own, which would compile it operation by operation."""


def _trained_on(slot: Bringing) -> tuple[int, int]:
    if slot.samples is None or slot.held is None:
        raise PotluckError("the app never cut its data; have it train on contributed(data)")
    return slot.samples, slot.held


def _bare(message: Message) -> Message:
    """As the app would have got it without Potluck."""
    if RECORD in message.content:
        del message.content[RECORD]
    return message


def _claimed(turn: _Turn, reply: Message, amount: float) -> Message:
    """The claim in a record of its own, and where the strategy looks for weights: no count that the app wrote stays."""
    for metrics in reply.content.metric_records.values():
        metrics[turn.rules.weighted_by] = amount
        if EXAMPLES in metrics:
            metrics[EXAMPLES] = amount
    reply.content[RECORD] = turn.claim(amount).to_record()
    return reply


def _trains(message: Message) -> bool:
    """Whether the app would train: Flower hands it "train.default", or "train.x", as well as "train"."""
    return message.metadata.message_type.partition(".")[0] == MessageType.TRAIN


def _failed(message: Message, reply: Message) -> Message:
    """The app's own words stay in the silo."""
    LOG.error("potluck: the app failed: %s", reply.error.reason)
    return _silent(message, "this silo's app failed; its own log says why")


def _evaluated(
    message: Message, context: Context, call_next: ClientAppCallable, weighted_by: str, claim: Claim | None = None
) -> Message:
    """Evaluations count alike: the size of a silo's test data tells of |D|."""
    if _trains(message):
        raise PotluckError("training is asked for outside of a slot; it is refused")
    reply = call_next(_bare(message), context)
    if reply.has_error():
        return _failed(message, reply)
    for metrics in reply.content.metric_records.values():
        for name in (weighted_by, EXAMPLES):
            if name in metrics:
                metrics[name] = 1.0
    if claim is not None:
        reply.content[RECORD] = claim.to_record()
    return reply
