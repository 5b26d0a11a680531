from pathlib import Path

import pytest

from tests.ledger.books import two_runs


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of three slots; to be copied, not changed."""
    place = tmp_path_factory.mktemp("whole") / "a.ledger"
    two_runs(place)
    return place
