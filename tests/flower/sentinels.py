"""Numbers that must not leave a silo, in every encoding that they might leave in."""

import struct
from collections.abc import Iterable, Iterator

PROFIT, ENERGY, PRICE, COMMUNICATION = 1234.56789, 3.14159265, 0.0271828182, 0.577215664
HELD = 23_456_789
SHARE = 0.6180339887


def texts(number: float) -> Iterator[bytes]:
    """As decimal digits, in full and rounded."""
    yield repr(number).encode()
    if number == int(number):
        yield str(int(number)).encode()
        yield f"{int(number):,}".encode()
    else:
        yield from (f"{number:.{digits}g}".encode() for digits in (7, 8, 9))


def varint(number: int) -> bytes:
    """As protocol buffers write it."""
    found = b""
    while number > 0x7F:
        found, number = found + bytes([number & 0x7F | 0x80]), number >> 7
    return found + bytes([number])


def encodings(number: float) -> set[bytes]:
    """Text, float32, float64, integers and varints, both ways round."""
    found = set(texts(number))
    for order in "<>":
        found |= {struct.pack(f"{order}f", number), struct.pack(f"{order}d", number)}
        # A float32 that was widened has other bytes than the number itself.
        found.add(struct.pack(f"{order}d", struct.unpack("f", struct.pack("f", number))[0]))
        if number == int(number):
            found |= {struct.pack(f"{order}I", int(number)), struct.pack(f"{order}Q", int(number))}
            found |= {varint(int(number)), varint(int(number) << 1)}
    return found


def leaks(secrets: dict[str, float], bodies: Iterable[bytes]) -> list[str]:
    """Which secrets are in there."""
    everything = b"\0\0".join(bodies)
    return sorted(name for name, number in secrets.items() if any(code in everything for code in encodings(number)))
