"""All balances settled by few payments."""

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from potluck.errors import PotluckError


@dataclass(frozen=True)
class Payment:
    """One bank transfer, in micro-units."""

    payer: str
    payee: str
    amount: int


def settle(balances: Mapping[str, int]) -> list[Payment]:
    """At most N − 1 payments that bring every balance to zero: the largest debt pays the largest claim, and again.

    Each payment ends a debt or a claim, and the last one ends both.
    """
    if sum(balances.values()):
        raise PotluckError(f"must sum to zero, got {sum(balances.values())} micro-units left over", field="balances")
    debts = [(balance, name) for name, balance in balances.items() if balance < 0]
    claims = [(-balance, name) for name, balance in balances.items() if balance > 0]
    heapify(debts)
    heapify(claims)
    payments = []
    while debts:
        (debt, payer), (claim, payee) = heappop(debts), heappop(claims)
        amount = min(-debt, -claim)
        payments.append(Payment(payer, payee, amount))
        if debt + amount:
            heappush(debts, (debt + amount, payer))
        if claim + amount:
            heappush(claims, (claim + amount, payee))
    return payments
