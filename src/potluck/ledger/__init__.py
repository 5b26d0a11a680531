"""Settlement on record: exact money, a chain of hashes, signatures of both sides, and few payments."""

from potluck.ledger.account import Account, countersign, join, receive
from potluck.ledger.book import Book, Row, reading
from potluck.ledger.entries import Countersignature, Opening, Silo, Statement
from potluck.ledger.keys import new_key, public_key, read_key, read_public
from potluck.ledger.money import MICRO, OUTSIDE, micro, money_text
from potluck.ledger.netting import Payment, settle
from potluck.ledger.store import Ledger
from potluck.ledger.verify import Verification, verify

__all__ = [
    "MICRO",
    "OUTSIDE",
    "Account",
    "Book",
    "Countersignature",
    "Ledger",
    "Opening",
    "Payment",
    "Row",
    "Silo",
    "Statement",
    "Verification",
    "countersign",
    "join",
    "micro",
    "money_text",
    "new_key",
    "public_key",
    "read_key",
    "read_public",
    "reading",
    "receive",
    "settle",
    "verify",
]
