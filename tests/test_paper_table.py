"""The table from the paper to the program names nothing that is not there."""

import importlib
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TEXT = (HERE.parent / "docs" / "paper.md").read_text(encoding="utf-8")
FILES = sorted(set(re.findall(r"`((?!tests)[a-z]+(?:/[a-z_]+)*/test_[a-z_]+\.py)`", TEXT)))
NAMED = re.findall(r"`((?:agents|economy|federation|game|mechanisms|scenario|training)\.[a-zA-Z_.]+)`", TEXT)


@pytest.mark.parametrize("file", FILES)
def test_every_test_file_is_there(file: str) -> None:
    assert (HERE / file).is_file()


def test_every_named_test_is_in_its_file() -> None:
    found = re.findall(r"`([a-z_/]+\.py)`: ((?:`test_[a-z0-9_]+`(?:, )?)+)", TEXT)
    assert len(found) > 20
    for file, tests in found:
        text = (HERE / file).read_text(encoding="utf-8")
        for name in re.findall(r"test_[a-z0-9_]+", tests):
            assert f"def {name}(" in text, f"{file}: {name}"


@pytest.mark.parametrize("name", NAMED)
def test_every_named_function_is_there(name: str) -> None:
    words = name.split(".")
    for length in range(len(words), 0, -1):
        try:
            found = importlib.import_module(".".join(["potluck", *words[:length]]))
        except ModuleNotFoundError:
            continue
        for word in words[length:]:
            found = getattr(found, word)
        return
    raise AssertionError(name)
