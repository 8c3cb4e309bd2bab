"""The parameters that series share as a vector, from the values of a model's parameters by name."""

from typing import Any

import numpy as np

from pathfold.model import DiffusionModel
from pathfold.model.ensemble import Ensemble


def flat(model: DiffusionModel, values: dict[str, Any]) -> np.ndarray:
    """Return z (Z,); what is fixed or follows from the others may be left out."""
    known = {name: np.asarray(value)[None] for name, value in values.items()}
    typical = {name: each.levels[0] if each.levels else each.typical for name, each in model.covariates.items()}
    return Ensemble.build(model, known, 1, [typical], np.random.default_rng(0)).z[0]
