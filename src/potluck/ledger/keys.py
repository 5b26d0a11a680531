"""Ed25519 keys in files: the private one for its owner's eyes alone, the public one to hand around."""

import os
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from potluck.errors import PotluckError


def new_key(place: Path) -> Ed25519PrivateKey:
    """A new private key at `place` (PEM, mode 0600) and its public one, 64 hexadecimal digits, at `place`.pub."""
    key, beside = Ed25519PrivateKey.generate(), place.with_name(f"{place.name}.pub")
    if beside.exists():
        raise PotluckError(f"{beside}: there is a key already; name another file")
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        with os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(pem)
        beside.write_text(public_key(key).hex() + "\n")
    except FileExistsError:
        raise PotluckError(f"{place}: there is a key already; name another file") from None
    except OSError as fault:
        raise PotluckError(f"{place}: cannot be written ({fault.strerror}); name another place") from None
    return key


def read_key(place: Path) -> Ed25519PrivateKey:
    """A private key; refused where others than its owner may read it."""
    try:
        if place.stat().st_mode & 0o077:
            raise PotluckError(f"{place}: others may read this private key; forbid it with: chmod 600 {place}")
        key = load_pem_private_key(place.read_bytes(), password=None)
    except OSError as fault:
        raise PotluckError(
            f"{place}: cannot be read ({fault.strerror}); make a key with: potluck ledger keygen"
        ) from None
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise PotluckError(f"{place}: is not an Ed25519 private key; make one with: potluck ledger keygen")
    return key


def public_key(key: Ed25519PrivateKey) -> bytes:
    """The 32 bytes that all may know."""
    return key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def read_public(text: str) -> bytes:
    """A public key from 64 hexadecimal digits, or from a file that holds them."""
    try:
        written = text if len(text) == 64 and not Path(text).exists() else Path(text).read_text()
        key = bytes.fromhex(written.strip())
    except (OSError, ValueError):
        key = b""
    if len(key) != 32:
        raise PotluckError(f"{text}: must be a public key, 64 hexadecimal digits or a .pub file that holds them")
    return key


def signed(key: bytes, signature: bytes, message: bytes) -> bool:
    """Whether the owner of `key` has signed `message`."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True
