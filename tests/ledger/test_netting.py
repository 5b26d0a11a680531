import pytest
from hypothesis import given
from hypothesis import strategies as st

from potluck.errors import PotluckError
from potluck.ledger import Payment, settle


def test_payments_by_hand() -> None:
    assert settle({"a": -70, "b": -30, "c": 60, "d": 40}) == [
        Payment("a", "c", 60),
        Payment("b", "d", 30),
        Payment("a", "d", 10),
    ]
    assert settle({"a": 0, "b": 0}) == []


@given(st.lists(st.integers(-(10**15), 10**15), min_size=1, max_size=40))
def test_at_most_one_payment_less_than_parties_settles_everything(drawn: list[int]) -> None:
    balances = {str(n): balance for n, balance in enumerate([*drawn, -sum(drawn)])}
    payments = settle(balances)
    assert len(payments) <= max(0, sum(map(bool, balances.values())) - 1)
    for payment in payments:
        assert payment.amount > 0
        balances[payment.payer] += payment.amount
        balances[payment.payee] -= payment.amount
    assert not any(balances.values())


def test_balances_that_do_not_sum_to_zero_cannot_be_settled() -> None:
    with pytest.raises(PotluckError, match="balances must sum to zero, got 1 micro-units left over"):
        settle({"a": 2, "b": -1})
