"""A mean over seeds."""

import numpy as np
import pytest

from potluck.studies.intervals import interval


def test_an_interval_holds_its_mean_and_narrows_with_agreement() -> None:
    wide, narrow = interval(np.array([0.1, 0.5, 0.9])), interval(np.array([0.49, 0.5, 0.51]))
    assert wide.mean == pytest.approx(0.5)
    assert wide.low < wide.mean < wide.high
    assert narrow.high - narrow.low < wide.high - wide.low
