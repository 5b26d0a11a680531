"""The harness itself: a test that never ends is ended, and says where it stood."""

import subprocess
import sys
from pathlib import Path

import pytest

SETTINGS = Path(__file__).parents[1] / "pyproject.toml"


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_test_that_hangs_is_ended_with_the_stacks_of_all_its_threads(workers: str, tmp_path: Path) -> None:
    (tmp_path / "test_hanging.py").write_text(
        "import threading\n\n\n"
        "def waits_in_a_thread():\n    threading.Event().wait()\n\n\n"
        "def test_waits_for_ever():\n    threading.Thread(target=waits_in_a_thread, daemon=True).start()\n"
        "    threading.Event().wait()\n"
    )
    options = ("-c", str(SETTINGS), "--rootdir", str(tmp_path), "-p", "no:cacheprovider", "-o", "addopts=")
    answer = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-o", "faulthandler_timeout=1", "-n", workers, "test_hanging.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert answer.returncode == 1
    assert "in test_waits_for_ever" in answer.stdout
    assert "in waits_in_a_thread" in answer.stdout
