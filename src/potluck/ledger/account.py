"""The silo's side: it checks what it is told, adds it up, and countersigns. No ledger file is needed."""

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from potluck.errors import PotluckError
from potluck.ledger.entries import Amount, Countersignature, Hash, Message, Number, Opening, Statement
from potluck.ledger.keys import signed


class Account(Message):
    """What a silo remembers of a run: its place, the last statement that it accepted, and the sum of all transfers."""

    coordinator: Hash
    opening: Opening
    place: Number
    balance: Amount = 0
    last: Statement | None = None

    @property
    def run(self) -> str:
        """Its name."""
        return self.opening.run

    @property
    def silo(self) -> str:
        """Whose account it is."""
        return self.opening.silos[self.place].name

    @property
    def slot(self) -> int:
        """The last slot accepted; 0 before the first."""
        return self.last.slot if self.last else 0

    @property
    def hash(self) -> bytes:
        """What the next statement has to follow."""
        return self.last.entry if self.last else self.opening.hash


def join(opening: Opening, coordinator: bytes, key: bytes) -> Account:
    """An empty account in a run that the coordinator has signed and that lists the silo's public `key`."""
    if not signed(coordinator, opening.signature, opening.hash):
        raise PotluckError(f"run {opening.run}: its opening is not signed by the coordinator; do not join it")
    places = [place for place, silo in enumerate(opening.silos) if silo.key == key]
    if not places:
        raise PotluckError(
            f"run {opening.run}: it does not list this silo's key {key.hex()}; give the coordinator that key"
        )
    return Account(coordinator=coordinator, opening=opening, place=places[0])


def receive(account: Account, statement: Statement) -> Account:
    """The account with this statement added; refused if it is forged, altered, replayed, or not the next.

    The last one again changes nothing.
    """
    where = f"slot {statement.slot} of run {account.run}"
    mine = (account.opening.hash, account.run, account.silo, account.place)
    if (statement.opening, statement.run, statement.silo, statement.place) != mine:
        raise PotluckError(
            f"slot {statement.slot} of run {statement.run}: the statement is for {statement.silo} and not for "
            f"{account.silo} in run {account.run}, or of another run of that name; it is refused"
        )
    if len(statement.entries) != len(account.opening.silos) or not statement.whole:
        raise PotluckError(f"{where}: the statement was altered after the coordinator signed it; it is refused")
    if not signed(account.coordinator, statement.signature, statement.hash):
        raise PotluckError(f"{where}: the statement is not signed by the coordinator; it is refused")
    if statement.slot < account.slot:
        raise PotluckError(f"{where}: the statement is a replay, slot {account.slot} is settled already; it is refused")
    if account.last and statement.slot == account.slot:
        if statement.hash != account.last.hash:
            raise PotluckError(f"{where}: the coordinator has signed two versions of it; keep both as evidence")
        return account
    if statement.slot > account.slot + 1:
        raise PotluckError(f"{where}: the statement of slot {account.slot + 1} is missing; ask for it first")
    if statement.before != account.hash:
        raise PotluckError(f"{where}: it does not follow from slot {account.slot} as this silo knows it; it is refused")
    return account.model_copy(update={"last": statement, "balance": account.balance + statement.transfer})


def countersign(account: Account, key: Ed25519PrivateKey) -> Countersignature:
    """The silo's word for its account up to the last statement received."""
    if account.last is None:
        raise PotluckError(f"run {account.run}: {account.silo} has received no statement yet that it could countersign")
    return Countersignature.of(account.last, key)
