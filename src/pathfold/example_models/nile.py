"""The flow of the Nile: a level that wanders, measured once a year.

    dx = sigma dW,  y = x + tau w.

This is the local level model, whose likelihood a Kalman filter gives exactly. The data are the annual flow at Aswan in
10^8 cubic metres, 1871 to 1970, as Cobb (1978), "The problem of the Nile: conditional solution to a changepoint
problem", prints it; Durbin and Koopman (2001), "Time series analysis by state space methods", find the maximum of the
likelihood at sigma = 38.3, tau = 122.9.
"""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from pathfold.example_models.example import Example
from pathfold.model import DiffusionModel, GaussianNoise, Observations

FLOW = [
    *(1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020, 960, 1180, 799, 958, 1140),
    *(1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774, 840, 874, 694, 940, 833, 701, 916, 692, 1020, 1050, 969),
    *(831, 726, 456, 824, 702, 1120, 1100, 832, 764, 821, 768, 845, 864, 862, 698, 845, 744, 796, 1040, 759),
    *(781, 865, 845, 944, 984, 897, 822, 1010, 771, 676, 649, 846, 812, 742, 801, 1040, 860, 874, 848, 890),
    *(744, 749, 838, 1050, 918, 986, 797, 923, 975, 815, 1020, 906, 901, 1170, 912, 746, 919, 718, 714, 740),
]


def noisy() -> DiffusionModel:
    return DiffusionModel(
        drift=lambda x, z: jnp.zeros(1),
        diffusion=lambda x, z: z["sigma"] * jnp.eye(1),
        parameters={"sigma": dist.LogNormal(3.5, 1.0), "tau": dist.LogNormal(4.5, 1.0)},
        initial_state=dist.Normal(jnp.full(1, 1000.0), 300.0),
        observation=GaussianNoise(lambda x, z: x, "tau"),
        states=("level",),
        observed=("flow",),
    )


def data() -> Observations:
    """Return the flow, with times in years since 1871."""
    return Observations(np.arange(len(FLOW)), FLOW)


EXAMPLE = Example(
    name="nile",
    summary="The yearly flow of the Nile: a level that wanders, two unknown noises; real data.",
    reference="Cobb 1978; Durbin and Koopman 2001",
    model=noisy,
    data=data,
    steps_per_interval=1,
    observed={0: 0},
)
