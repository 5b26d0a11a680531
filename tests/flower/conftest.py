import logging
import os
from pathlib import Path

import pytest

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"  # before Flower is imported

from potluck.flower.consortium import Consortium
from tests.flower.local import LocalGrid, client_app, consortium_in, scenario_of


@pytest.fixture
def consortium(tmp_path: Path) -> Consortium:
    return consortium_in(tmp_path, scenario_of())


@pytest.fixture
def grid(consortium: Consortium) -> LocalGrid:
    return LocalGrid(consortium, [client_app() for _ in consortium.names])


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    """What Flower's logger says."""
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
    return caplog
