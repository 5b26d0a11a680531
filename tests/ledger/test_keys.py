import os
from pathlib import Path

import pytest

from potluck.errors import PotluckError
from potluck.ledger import new_key, public_key, read_key, read_public


def test_a_key_is_for_its_owner_alone_and_read_back(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        key = new_key(tmp_path / "a.key")
    finally:
        os.umask(before)
    assert (tmp_path / "a.key").stat().st_mode & 0o777 == 0o600
    assert public_key(read_key(tmp_path / "a.key")) == public_key(key)
    assert read_public(str(tmp_path / "a.key.pub")) == read_public(public_key(key).hex()) == public_key(key)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620])
def test_a_key_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    new_key(tmp_path / "a.key")
    (tmp_path / "a.key").chmod(mode)
    with pytest.raises(PotluckError, match=r"others may read this private key; forbid it with: chmod 600"):
        read_key(tmp_path / "a.key")


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    key = new_key(tmp_path / "a.key")
    with pytest.raises(PotluckError, match="there is a key already"):
        new_key(tmp_path / "a.key")
    (tmp_path / "a.key.pub").unlink()
    with pytest.raises(PotluckError, match="there is a key already"):
        new_key(tmp_path / "a.key")
    assert public_key(read_key(tmp_path / "a.key")) == public_key(key)


def test_what_is_no_key_is_named(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("-----BEGIN")
    (tmp_path / "other").chmod(0o600)
    with pytest.raises(PotluckError, match="other: is not an Ed25519 private key"):
        read_key(tmp_path / "other")
    with pytest.raises(PotluckError, match=r"nowhere: cannot be read \(No such file or directory\)"):
        read_key(tmp_path / "nowhere")
    with pytest.raises(PotluckError, match="must be a public key, 64 hexadecimal digits"):
        read_public("abc")
    with pytest.raises(PotluckError, match="cannot be written"):
        new_key(tmp_path / "no" / "a.key")
