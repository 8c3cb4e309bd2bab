"""The paper's heuristics for a start (its appendix on chain initialisation): first guesses that `find_start` projects.

Two of them begin with states that meet the observations without observation noise, x~_n with h(z, x~_n, 0) = y_n: the
path of a prior draw, moved at each node by itself.

    interpolation   straight lines between these states; every step is solved for its noise, w = 0
    adam-states     the noise that leads from each of these states to the next, by Adam, w = 0
    adam            a high density of (u, v_0, v) under additive Gaussian observation noise, by Adam; w from the misfits

A guess depends on the model, the data, the seed and the number of the chain alone.
"""

from pathfold.paper.heuristics.guess import Heuristic, guess_starts

__all__ = ["Heuristic", "guess_starts"]
