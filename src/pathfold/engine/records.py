"""The records the sampler works on: what belongs to a point of the manifold, and what is scratch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pathfold.engine.table import record_place
from pathfold.program.layout import Record, Use

# Fields that kernels alone read: what they know to be constant there is not written.
INSIDE = {
    *(("node", name) for name in ("A", "E", "Ez", "Q", "Hz", "Hu", "b", "o")),
    *(("path", name) for name in ("B", "Phi")),
    *(("work", name) for name in ("gz_node", "gz_path")),
    ("newton", "cross"),
}

type Fields = dict[str, tuple[int, ...]]  # the shapes of a record's fields, in order


@dataclass(frozen=True)
class Sizes:
    """Dimensions fixed at compilation (method.md, section 1); Y counts the rows of one node, state rows included."""

    X: int  # state, with what varies between series
    M: int  # the part of it that moves: effects stay as they begin
    V: int  # noise of one fine step
    U: int  # parameters, as standard normals
    Z: int  # parameters, as the model sees them
    Y: int  # constraint rows of a node
    W: int  # observation noise
    V0: int  # initial-state noise
    IN: int  # inputs and covariates
    F: int  # forcing of one fine step: inputs, covariates, slopes and marks of jumps
    C: int  # covariates
    L: int = 0  # losses of a node: one if likelihoods are tempered


class Records:
    """All records of a model, by name. On a regular grid the step size is one number, shared by all lanes."""

    def __init__(self, n: Sizes, *, regular: bool, censored: int, metric: bool) -> None:
        self._problem(n, regular, censored, metric)
        self._vector(n)
        self._point(n)
        self._scratch(n)
        self._segments(n)
        vector = ["u", "v0", "w", "v"]
        self.blocks: dict[str, list[str]] = {
            "problem": ["settings", "grid", "forcing", "coordinates", "about"],
            "vector": vector,
            "point": [*vector, "theta", "start", "node", "path", "sums"],
            "scratch": [
                "work",
                "slope",
                "newton",
                "start_multipliers",
                "start_weights",
                "newton_sums",
                "guess",
                "descent",
                "descent_of_series",
                "carry",
            ],
        }

    def _problem(self, n: Sizes, regular: bool, censored: int, metric: bool) -> None:
        """What the data and the settings fix. Gaps and misfits are measured in the scales of states and rows."""
        X, Y, K = n.X, n.Y, n.U if metric else 0
        step_size: Fields = {"delta": ()}
        solver: Fields = {"constraint_tolerance": (), "position_tolerance": (), "max_iterations": ()}
        scales: Fields = {"row_relaxation": (), "gap_relaxation": (), "state_scale": (X,)}
        own: Fields = {"verlet": (), "coldness": (), **solver, **scales}
        self.settings = Record("settings", "shared", own | (step_size if regular else {}))
        times: Fields = {"t_start": (), "t_end": (), "inputs_end": (n.IN,)}
        seen: Fields = {"y": (Y,), "mask": (Y,), "censored": (censored,), "upper": (censored,), "row_scale": (Y,)}
        self.grid = Record("grid", "lane", {**times, **seen} | ({} if regular else step_size))
        self.forcing = Record("forcing", "step", {"forcing": (n.F,)})
        self.about = Record("about", "series", {"covariates": (n.C,), "begins": ()}, {"begins": np.ones(())})
        # Where the parameters have a metric, what is sampled in the place of u below is q with u = centre + factor q.
        self.coordinates = Record("coordinates", "shared", {"centre": (K,), "factor": (K, K)})

    def _vector(self, n: Sizes) -> None:
        """A position q = [u; v0; w; v], or a momentum or gradient of the same shape."""
        self.u = Record("u", "shared", {"u": (n.U,)})
        self.v0 = Record("v0", "series", {"v0": (n.V0,)})
        self.w = Record("w", "lane", {"w": (n.W,)})
        self.v = Record("v", "step", {"v": (n.V,)})

    def _point(self, n: Sizes) -> None:
        """What is known at a point: parameters, initial states, path, node Jacobians, factor of the Gram matrix."""
        X, V, U, Z, V0 = n.X, n.V, n.U, n.Z, n.V0
        self.theta = Record("theta", "shared", {"z": (Z,), "D": (Z, U), "excess_u": (), "excess_u_gradient": (U,)})
        excess: Fields = {"excess_x0": (), "excess_z_gradient": (Z,), "excess_v0_gradient": (V0,)}
        jacobians: Fields = {"E0z": (X, Z), "E0": (X, U), "B0": (X, V0)}
        self.start = Record("start", "series", {"x0": (X,), **jacobians, **excess, "log_sig": ()})
        self.path = Record("path", "step", {"x": (X,), "B": (X, V)})
        self.node = Record("node", "lane", _linearised(n) | _filtered(n))
        self.sums = Record("sums", "shared", _sums(n))

    def _scratch(self, n: Sizes) -> None:
        """What solves and the gradient need on the way; the lane buffer, its size known once kernels are emitted."""
        X, M, V, Z, V0 = n.X, n.M, n.V, n.Z, n.V0
        self.work = Record("work", "lane", _weights(n))
        self.slope = Record("slope", "step", {"Lam": (X, M), "gv": (V,)})
        self.newton = Record("newton", "lane", _newton(n))
        self.start_multipliers = Record("start_multipliers", "series", {"zeta0": (V0,)})
        self.start_weights = Record("start_weights", "series", {"wE0": (X, Z), "wB0": (X, V0), "zeta0x": (X,)})
        self.newton_sums = Record("newton_sums", "shared", _sums(n))
        self.guess = Record("guess", "lane", {"best": (n.X,), "least": ()})
        self.descent = Record("descent", "lane", {"level": (), "square": (), "furthest": (), "own_fraction": ()})
        self.descent_of_series = Record("descent_of_series", "series", {"share": (), "missed": (), "fraction": ()})
        self.carry = Record("carry", "shared", {})

    def _segments(self, n: Sizes) -> None:
        """What segments of a series hand to each other (method.md, section 23): nothing, where series are whole."""
        X, U = n.X, n.U
        self.segment = _all_zero(
            "segment", {"x_in": (X,), "P_in": (X, X), "d_in": (X, U), "Om_in": (X, X), "R_in": (X, U)}
        )
        vectors: Fields = {name: (X,) for name in ("c_in", "rho_in", "later_in", "running_in", "zeta_in")}
        self.handed = _all_zero("handed", {**vectors, "Pc_in": (X, X), "dl_in": (X, U), "dr_in": (X, U)})

    def __getitem__(self, name: str) -> Record:
        return getattr(self, name)

    def uses(self, **blocks: str) -> list[Use]:
        """Return the records a kernel works on, by its name for the block that holds them, and the lane buffer.

        Fields of the block `target` (the moving point of a solve) carry the suffix _new, of `gradient` the suffix _g.
        """
        out = []
        for name, records in blocks.items():
            kind, block, suffix = _BLOCKS[name]
            out += [Use(self[record], block, record_place(kind, record), suffix) for record in records.split()]
        return [*out, Use(self.carry, "scratch", record_place("scratch", "carry"))]


class SegmentedRecords(Records):
    """Records where series are cut into segments: a segment has what it is handed, and what it makes of it."""

    def __init__(self, n: Sizes, *, regular: bool, censored: int, metric: bool) -> None:
        super().__init__(n, regular=regular, censored=censored, metric=metric)
        X, U = n.X, n.U
        survey: Fields = {"Phi": (X, X), "Psi": (X, X), "Om": (X, X), "r": (X, U)}
        ends: Fields = {"P_ref": (X, X), "P_end": (X, X), "d_end": (X, U)}
        self.segment = Record("segment", "series", self.segment.fields | survey | ends)
        cross_survey: Fields = {"Phi_l": (X, X), "Phi_r": (X, X), "Om_c": (X, X), "r_l": (X, U), "r_r": (X, U)}
        cross_ends: Fields = {"Pc_end": (X, X), "dl_end": (X, U), "dr_end": (X, U)}
        vectors: Fields = {name: (X,) for name in ("c_end", "rho_end", "later_end", "running_end", "zeta_end")}
        self.handed = Record("handed", "series", self.handed.fields | vectors | cross_survey | cross_ends)
        self.about = Record("about", "series", self.about.fields)
        self.blocks["point"].append("segment")
        self.blocks["scratch"].append("handed")


# What kernels call their blocks: the kind of block, the argument that holds it, the suffix of its fields.
_BLOCKS = {
    "problem": ("problem", "problem", ""),
    "point": ("point", "point", ""),
    "origin": ("point", "point", ""),
    "target": ("point", "other", "_new"),
    "vector": ("vector", "other", ""),
    "gradient": ("vector", "other", "_g"),
    "scratch": ("scratch", "scratch", ""),
}


def _all_zero(name: str, fields: Fields) -> Record:
    return Record(name, "series", fields, {field: np.zeros(shape) for field, shape in fields.items()})


def _linearised(n: Sizes) -> Fields:
    """States and Jacobians of an interval and of the node at its end (method.md, section 3)."""
    X, U, Z, Y, W = n.X, n.U, n.Z, n.Y, n.W
    of_path: Fields = {"x_start": (X,), "x_node": (X,), "A": (X, X), "E": (X, U), "Ez": (X, Z), "Q": (X, X)}
    return of_path | {"H": (Y, X), "Hz": (Y, Z), "Hu": (Y, U), "Hw": (Y, W), "excess": (), "loss": (n.L,)}


def _filtered(n: Sizes) -> Fields:
    """The factor of the Gram matrix at a node (method.md, section 4)."""
    X, U, Y = n.X, n.U, n.Y
    start: Fields = {"P_start": (X, X), "d_start": (X, U)}
    return start | {"M": (X, X), "K": (X, Y), "Sig_inv": (Y, Y), "eU": (Y, U)}


def _weights(n: Sizes) -> Fields:
    """What solves and the gradient of log|G| have of an interval (method.md, sections 5 and 6)."""
    X, M, Z, Y, W = n.X, n.M, n.Z, n.Y, n.W
    weights: Fields = {"Bp": (X,), "Th": (M, M), "Gam": (M, Z), "Lam0": (X, M), "wH": (Y, X), "wHz": (Y, Z)}
    gradients: Fields = {"gz_node": (Z,), "gx_node": (X,), "gz_path": (Z,), "gx_path": (X,), "zeta": (X,)}
    return weights | {"wHw": (Y, W)} | gradients


def _newton(n: Sizes) -> Fields:
    """Residuals, factor and multipliers of the solve for the position at a node (method.md, section 8)."""
    X, U, Y = n.X, n.U, n.Y
    factor: Fields = {"cross": (X, X), "Pc": (X, X), "Kl": (X, Y), "Kr": (Y, X), "Sc_inv": (Y, Y)}
    parameters: Fields = {"eUl": (Y, U), "SeR": (Y, U), "dl_node": (X, U)}
    return {"gap": (X,), "o": (Y,)} | factor | parameters | {"c": (X,), "e": (Y,), "lam": (Y,), "eta": (X,)}


def _sums(n: Sizes) -> Fields:
    """Sums over nodes and series, and small results of a solve."""
    U, Z = n.U, n.Z
    solve: Fields = {"C_inv": (U, U), "C": (U, U), "condition": (), "log_det": (), "b": (U,), "a": (U,), "a_error": ()}
    vectors: Fields = {"residual": (), "change": (), "factors": (2,), "squares": ()}
    return solve | vectors | {"gz": (Z,), "gu": (U,), "wD": (Z, U), "log_C": (), "excesses": (), "rows": ()}
