"""The arrays a chain works on, as named tuples that Python and native code share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Vector(NamedTuple):
    """A position, momentum or gradient [u; v0; w; v]: the whole array, and its parts as views of it."""

    all: np.ndarray
    u: np.ndarray
    v0: np.ndarray
    w: np.ndarray
    v: np.ndarray


class Point(NamedTuple):
    """A position with everything that is known there: see the records of the same names."""

    q: Vector
    gradient: Vector  # of h1, projected onto the cotangent space
    theta: np.ndarray
    start: np.ndarray
    node: np.ndarray
    path: np.ndarray
    sums: np.ndarray


class Problem(NamedTuple):
    """What the data and the settings fix: number of fine steps, settings, grid, first interval of each series (and N)."""

    S: int
    settings: np.ndarray
    grid: np.ndarray
    first: np.ndarray


class Scratch(NamedTuple):
    """Room for intermediate results."""

    carry: np.ndarray
    work: np.ndarray
    slope: np.ndarray
    newton: np.ndarray
    newton_start: np.ndarray
    gradient_start: np.ndarray
    newton_sums: np.ndarray


class Counts(NamedTuple):
    """What the solves of a step took; added up until the host clears them."""

    newton_iterations: np.ndarray
    linearisations: np.ndarray
