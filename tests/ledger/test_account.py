"""A silo believes nothing that the coordinator has not signed, and nothing twice."""

from collections.abc import Callable
from pathlib import Path

import pytest

from potluck.errors import PotluckError
from potluck.ledger import Account, Ledger, Opening, Statement, countersign, join, public_key, receive
from potluck.ledger.entries import Countersignature
from tests.ledger.books import COORDINATOR, KEYS, Federation, key_of

Told = tuple[Opening, list[Statement]]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """A run's opening, and what `south` was told in its first four slots."""
    with Ledger(tmp_path_factory.mktemp("account") / "a.ledger", COORDINATOR) as ledger:
        federation = Federation(ledger)
        for _ in range(4):
            federation.settle()
        return ledger.begin("spring", KEYS, rules="redistribution, α = 5"), ledger.statements("spring", "south")


@pytest.fixture
def account(told: Told) -> Account:
    """South's, after the first two."""
    opening, statements = told
    account = join(opening, public_key(COORDINATOR), KEYS["south"])
    return receive(receive(account, statements[0]), statements[1])


def test_statements_in_their_order_add_up(told: Told, account: Account) -> None:
    for statement in told[1][2:]:
        account = receive(account, Statement.from_bytes(statement.to_bytes()))
    assert (account.slot, account.balance, account.silo, account.run) == (4, 2_000_000, "south", "spring")
    assert Account.from_bytes(account.to_bytes()) == account


def test_the_last_one_again_changes_nothing(told: Told, account: Account) -> None:
    assert receive(account, told[1][1]) is account


def forged(statement: Statement) -> Statement:
    """Signed by somebody else, and otherwise perfect."""
    return statement.model_copy(update={"signature": key_of("mallory").sign(statement.hash)})


def better(statement: Statement) -> Statement:
    """More money in the silo's own line, which is then no longer among those that were signed."""
    return statement.model_copy(update={"transfer": statement.transfer + 1})


def consistent(statement: Statement) -> Statement:
    """More money, and the line's hash put in its place, but the old signature."""
    more = better(statement)
    entries = tuple(more.entry if place == more.place else line for place, line in enumerate(more.entries))
    return more.model_copy(update={"entries": entries})


def other_version(statement: Statement) -> Statement:
    """Another word of the coordinator for the same slot, properly signed."""
    other = consistent(statement)
    return other.model_copy(update={"signature": COORDINATOR.sign(other.hash)})


@pytest.mark.parametrize(
    ("slot", "change", "refusal"),
    [
        (3, forged, "slot 3 of run spring: the statement is not signed by the coordinator"),
        (3, better, "slot 3 of run spring: the statement was altered after the coordinator signed it"),
        (3, consistent, "slot 3 of run spring: the statement is not signed by the coordinator"),
        (1, lambda same: same, "slot 1 of run spring: the statement is a replay, slot 2 is settled already"),
        (4, lambda same: same, "slot 4 of run spring: the statement of slot 3 is missing; ask for it first"),
        (2, other_version, "slot 2 of run spring: the coordinator has signed two versions of it"),
        (3, lambda it: it.model_copy(update={"opening": bytes(32)}), "or of another run of that name"),
        (3, lambda it: it.model_copy(update={"silo": "north", "place": 0}), "is for north and not for south"),
    ],
)
def test_what_is_not_the_next_word_of_the_coordinator_is_refused(
    told: Told, account: Account, slot: int, change: Callable[[Statement], Statement], refusal: str
) -> None:
    with pytest.raises(PotluckError, match=refusal):
        receive(account, change(told[1][slot - 1]))


def test_a_past_that_was_rewritten_is_refused(told: Told, account: Account, tmp_path: Path) -> None:
    """A coordinator that loses slot 2, and settles it and slot 3 otherwise."""
    with Ledger(tmp_path / "b.ledger", COORDINATOR) as ledger:
        ledger.begin("spring", KEYS)
        other = ledger.record("spring", 1, signal=1.0, precision=0.5, contributions=[1.0] * 3, transfers=[0.0] * 3)[1]
    third = told[1][2].model_copy(update={"before": other.entry})
    entries = tuple(third.entry if place == third.place else line for place, line in enumerate(third.entries))
    third = third.model_copy(update={"entries": entries})
    third = third.model_copy(update={"signature": COORDINATOR.sign(third.hash)})
    with pytest.raises(
        PotluckError, match="slot 3 of run spring: it does not follow from slot 2 as this silo knows it"
    ):
        receive(account, third)


def test_only_a_run_that_lists_the_silo_and_is_signed_is_joined(told: Told) -> None:
    with pytest.raises(PotluckError, match="run spring: it does not list this silo's key"):
        join(told[0], public_key(COORDINATOR), public_key(key_of("mallory")))
    with pytest.raises(PotluckError, match="run spring: its opening is not signed by the coordinator"):
        join(told[0], public_key(key_of("mallory")), KEYS["south"])
    other = told[0].model_copy(update={"rules": "pay mallory"})
    with pytest.raises(PotluckError, match="run spring: its opening is not signed by the coordinator"):
        join(other, public_key(COORDINATOR), KEYS["south"])


def test_there_is_nothing_to_countersign_before_the_first_statement(told: Told) -> None:
    account = join(told[0], public_key(COORDINATOR), KEYS["south"])
    with pytest.raises(PotluckError, match="south has received no statement yet"):
        countersign(account, key_of("south"))


def test_a_countersignature_arrives_as_it_was_sent(account: Account) -> None:
    word = countersign(account, key_of("south"))
    assert Countersignature.from_bytes(word.to_bytes()) == word
    assert (word.run, word.slot, word.silo) == ("spring", 2, "south")
