"""Pictures that the colour-blind can read: the palette as they see it, by the matrices of Machado et al. (2009)."""

import itertools

import numpy as np
import pytest

from potluck.studies.looks import PALETTE, SCHEMES, line_look

SEEN_BY = {
    "everyone": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
"""Severity 1, on linear RGB."""


def linear(colour: str) -> np.ndarray:
    srgb = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIELAB of linear RGB under D65."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(rgb, 0, 1) / np.array([0.9505, 1.0, 1.089])
    root = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])])


@pytest.mark.parametrize("eyes", SEEN_BY)
def test_no_two_colours_look_alike(eyes: str) -> None:
    seen = {colour: lab(SEEN_BY[eyes] @ linear(colour)) for colour in PALETTE}
    for one, other in itertools.combinations(PALETTE, 2):
        assert np.linalg.norm(seen[one] - seen[other]) > 10, f"{one} and {other} to {eyes}"
    schemes = [colour for _, colour in SCHEMES.values()]
    for one, other in itertools.combinations(schemes, 2):
        assert np.linalg.norm(seen[one] - seen[other]) > 20, f"{one} and {other} to {eyes}"


def test_the_measure_knows_what_looks_alike() -> None:
    red, green = linear("#a05000"), linear("#707000")
    everyone, few = (lab(SEEN_BY[eyes] @ red) - lab(SEEN_BY[eyes] @ green) for eyes in ("everyone", "deuteranopia"))
    assert np.linalg.norm(everyone) > 30 > 15 > np.linalg.norm(few)


def test_more_lines_than_colours_are_told_apart_by_dashes() -> None:
    looks = [tuple(line_look(number).values()) for number in range(4 * len(PALETTE))]
    assert len(set(looks)) == len(looks)
