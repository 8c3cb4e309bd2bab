"""The parameters, and the components of the state, that are kept of every draw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pathfold.errors import SettingsError, told
from pathfold.model import DiffusionModel, Parameters


def component_labels(model: DiffusionModel) -> list[Any]:
    """Return the labels of the state's components in the results: their names, or else their numbers."""
    return [*(model.states or range(model.state_dim))]


@dataclass(frozen=True)
class Selection:
    """The parameters and components that are kept of every draw, in the order of the model."""

    parameters: tuple[str, ...]
    components: tuple[int, ...]  # of the state, by number
    recorded: str | tuple[str, ...]  # as the results record it

    @classmethod
    def of(cls, model: DiffusionModel, keep: Any = None) -> Selection:
        """Select what `keep` names, all if it is None; raise SettingsError for a name that is not there."""
        labels = component_labels(model)
        if keep is None:
            return cls(tuple(model.priors), tuple(range(model.state_dim)), "all")
        if isinstance(keep, str | int):
            keep = [keep]
        if not isinstance(keep, Sequence) or not keep:
            raise SettingsError(
                f"keep must be a list of names of parameters and components of the state, not {told(keep)}; leave it "
                "out to keep all"
            )
        known = [*model.priors, *labels]
        for name in keep:
            if isinstance(name, bool) or name not in known:
                raise SettingsError(
                    f"keep names {told(name)}, which is no parameter and no component of the state; there are "
                    f"{', '.join(map(repr, known))}"
                )
        parameters = tuple(name for name in model.priors if name in keep)
        components = tuple(i for i, label in enumerate(labels) if label in keep)
        return cls(parameters, components, (*parameters, *(str(labels[i]) for i in components)))

    def columns(self, model: DiffusionModel) -> dict[str, list[int]]:
        """Return the entries of the last axis that are kept, for every array of the draws of which not all are."""
        own = [model.state_dim + i for i in self._places(model.varying)]
        kept = {"z": [*self._places(model.parameters)], "x0": [*self.components, *own]}
        kept |= {name: [*self.components] for name in ("nodes", "path")}
        sizes = {"z": model.parameters.z_size, "x0": model.augmented_dim}
        return {name: places for name, places in kept.items() if len(places) < sizes.get(name, model.state_dim)}

    def _places(self, parameters: Parameters) -> Iterator[int]:
        """Yield the places of the parameters that are kept, among all of their values."""
        begin = 0
        for name, shape in parameters.shapes.items():
            end = begin + int(np.prod(shape, dtype=int))
            yield from range(begin, end) if name in self.parameters else ()
            begin = end
