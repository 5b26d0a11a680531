"""Files that are whole or not there: hashed, written beside their place, renamed into it."""

import contextlib
import hashlib
import os
from pathlib import Path

__all__ = ["read_whole", "whole_text", "write_whole"]

HASH = 32


def write_whole(place: Path, payload: bytes | memoryview, mark: bytes = b"") -> None:
    """The mark, the hash of the payload, the payload; a fault leaves what was there before."""
    beside = place.with_name(f"{place.name}.part")
    try:
        with beside.open("wb") as file:
            file.write(mark)
            file.write(hashlib.sha256(payload).digest())
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(place)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise


def read_whole(place: Path, mark: bytes = b"") -> bytes:
    """The payload; a ValueError where the file is not as it was written."""
    content = place.read_bytes()
    if not content.startswith(mark):
        raise ValueError("it is another kind of file")
    written, payload = content[len(mark) :][:HASH], content[len(mark) + HASH :]
    if hashlib.sha256(payload).digest() != written:
        raise ValueError("its hash is wrong")
    return payload


def whole_text(place: Path, text: str) -> None:
    """Text for people and programs, without a hash; a fault leaves what was there before."""
    beside = place.with_name(f"{place.name}.part")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(place)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
