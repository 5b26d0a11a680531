"""Which devices there are."""

import os

import jax
import pytest

from potluck.devices import cores, mesh_over


def test_only_cores_that_this_process_may_use_become_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert cores() == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    assert cores() == 64


@pytest.mark.parametrize(("work", "size"), [(1, 1), (3, 1), (4, 2), (7, 1)])
def test_devices_share_work_evenly(work: int, size: int) -> None:
    assert len(jax.devices()) == 2  # set in conftest
    assert mesh_over(work).size == size
