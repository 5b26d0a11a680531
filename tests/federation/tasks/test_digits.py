"""The digits, read without scikit-learn, against scikit-learn."""

import subprocess
import sys

import numpy as np
from numpy.testing import assert_array_equal
from sklearn.datasets import load_digits

from potluck.federation.tasks.digits import read_digits


def test_they_are_scikit_learns_own() -> None:
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    data = read_digits()
    assert_array_equal(np.concatenate([data.images, data.test_images]).reshape(-1, 64), images[order])
    assert_array_equal(np.concatenate([data.labels, data.test_labels]), labels[order])


def test_nobody_waits_for_scikit_learn() -> None:
    script = "import sys, potluck.federation as f; f.load('digits'); print('sklearn' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert said == "False\n"
