"""What the constructor accepts, what it makes of it, and the sentence for each mistake."""

import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import gamma, kstest, norm
from scipy.stats import t as student_t

import pathfold as pf
from pathfold.example_models import (
    cox_ingersoll_ross,
    fitzhugh_nagumo,
    integrated_ornstein_uhlenbeck,
    ornstein_uhlenbeck,
    sir,
)
from pathfold.example_models.doses import EXAMPLE
from pathfold.model import ConditionalMap, build_parameters
from pathfold.model.check_data import check_data


def observe(model: pf.DiffusionModel, *args: Any) -> Any:
    observation: Any = model.observation
    return observation.observe(*args)


def build(**changes):
    """A sound model in two dimensions, with some of its parts replaced."""
    parts = {
        "drift": lambda x, z: -z["theta"] * x,
        "diffusion": lambda x, z: z["sigma"] * jnp.eye(2),
        "parameters": {"theta": dist.LogNormal(0.0, 1.0), "sigma": dist.LogNormal(0.0, 1.0)},
        "initial_state": dist.Normal(jnp.zeros(2), 1.0),
        "observation": pf.Noiseless(lambda x, z: x),
    }
    return pf.DiffusionModel(**(parts | changes))


def branching(x, z):
    return x if x[0] > 0 else -x


GAUSSIAN = {"mean": lambda x, z: x}
ROOT_OF_NORMAL = dist.TransformedDistribution(dist.Normal(0.0, 1.0), dist.transforms.PowerTransform(0.5))
RNG = np.random.default_rng(0)

MISTAKES = [
    ({"drift": lambda x, z: jnp.zeros(3)}, ("drift returned shape (3,)", "initial_state fixes the number of states")),
    ({"drift": lambda x, z: x[0]}, ("drift returned shape ()", "expected (2,)")),
    ({"drift": lambda x, z: [x[0], x[1]]}, ("drift returned a list", "jnp.array")),
    ({"drift": lambda x, z: x * 1j}, ("drift", "complex128", "jnp.real")),
    ({"drift": lambda x, z: jnp.array([1, 2])}, ("drift", "int64", "1.0")),
    ({"drift": lambda x, z: -z["thetaa"] * x}, ("drift asks for parameter 'thetaa'", "'theta', 'sigma'", "prior")),
    ({"drift": lambda x, z: -z.theta * x}, ("drift raised AttributeError", "write ['theta'] in place of .theta")),
    ({"observation": pf.Likelihood(lambda x, z: x)}, ("the likelihood gave an array; give a numpyro distribution",)),
    ({"drift": branching}, ("drift branches", "jnp.where")),
    ({"drift": lambda x, z: np.exp(np.asarray(x))}, ("drift", "numpy", "jax.numpy")),
    ({"drift": lambda x, z: jnp.array([x[1], x[2]])}, ("drift indexes out of range",)),
    ({"drift": lambda x, z: x + jnp.exp(x)[2]}, ("drift indexes out of range", "index 2")),
    ({"drift": lambda x, z: jnp.exp(x).at[5].set(0.0)}, ("drift indexes out of range", "index 5")),
    ({"observation": pf.Noiseless(lambda x, z: jnp.take(x, 4)[None])}, ("observation function indexes out of range",)),
    ({"drift": lambda x, z: x.nonsense()}, ("drift raised AttributeError",)),
    ({"drift": 3.0}, ("drift must be a function of (x, z) or (x, z, t)",)),
    ({"drift": lambda x: x}, ("drift takes arguments (x)", "(x, z) or (x, z, t)")),
    ({"drift": lambda x, z, t, s: x}, ("drift takes arguments (x, z, t, s)",)),
    ({"diffusion": lambda x, z: x}, ("diffusion returned shape (2,)", "expected (2, B)", "jnp.diag")),
    ({"diffusion": lambda x, z: jnp.ones((3, 1))}, ("returned shape (3, 1)", "expected (2, B)", "initial_state fixes")),
    ({"diffusion": lambda x, z: jnp.array([[0], [1]])}, ("diffusion", "int64")),
    ({"diffusion": lambda x, z: z["tau"] * jnp.eye(2)}, ("diffusion asks for parameter 'tau'",)),
    ({"parameters": [1, 2]}, ("parameters must be a dict",)),
    ({"parameters": {"theta": (0.0, 1.0)}}, ("prior of parameter 'theta'", "numpyro distribution")),
    ({"parameters": {"theta": dist.Normal}}, ("prior of parameter 'theta'",)),
    ({"parameters": {"theta": dist.Poisson(2.0)}}, ("'theta'", "discrete")),
    ({"parameters": {"theta": np.inf}}, ("'theta'", "finite")),
    ({"parameters": {1: dist.Normal(0.0, 1.0)}}, ("names must be strings",)),
    ({"parameters": {"": dist.Normal(0.0, 1.0)}}, ("parameter ''", "another name")),
    ({"parameters": {"a/b": dist.Normal(0.0, 1.0)}}, ("parameter 'a/b'", "another name", "without '/'")),
    ({"parameters": {"k": dist.Normal(jnp.zeros(2), 1.0), "k_dim_0": 1.0}}, ("'k_dim_0' needs another name", "'k'")),
    ({"parameters": {"theta": dist.Uniform(-jnp.inf, jnp.inf)}}, ("'theta'", "low = ", "finite", "proper")),
    ({"parameters": {"theta": dist.Normal(jnp.nan, 1.0, validate_args=False)}}, ("'theta'", "loc = ", "finite")),
    ({"parameters": {"theta": dist.Normal(0.0, -1.0, validate_args=False)}}, ("'theta'", "scale = -1.0", "Positive")),
    ({"parameters": {"theta": dist.Uniform(1.0, 0.0, validate_args=False)}}, ("'theta'", "low must be below high")),
    ({"parameters": {"theta": dist.ImproperUniform(dist.constraints.real, (), ())}}, ("'theta'", "proper prior")),
    ({"parameters": {"theta": dist.Normal(jnp.zeros(0), 1.0)}}, ("'theta'", "no entry")),
    ({"parameters": {"theta": ROOT_OF_NORMAL, "sigma": 1.0}}, ("prior of parameter 'theta' gave", "nan", "finite")),
    ({"parameters": {"theta": np.ma.masked_array([1.0], [True])}}, ("'theta'", "masked")),
    ({"drift": lambda x, z: x + np.random.normal()}, ("drift gives another value each time", "random")),  # noqa: NPY002
    ({"drift": lambda x, z: (x * 1.0).at[0].add(random.random())}, ("drift gives another value", "random")),
    ({"diffusion": lambda x, z: random.random() * jnp.eye(2)}, ("diffusion gives another value",)),
    ({"observation": pf.Noiseless(lambda x, z: x * RNG.normal())}, ("observation function gives another value",)),
    ({"observation": pf.GaussianNoise(**GAUSSIAN, scale=lambda z: jnp.asarray(RNG.uniform()))},
     ("observation scale gives another value",)),
    ({"observation": pf.GaussianNoise(**GAUSSIAN, scale=np.inf)}, ("scale is not finite",)),
    ({"observation": pf.GaussianNoise(**GAUSSIAN, scale=dist.HalfNormal(1.0))}, ("which has its prior in parameters",)),
    ({"initial_state": lambda z: dist.Normal(RNG.normal(size=2), 1.0)}, ("initial_state gives another value",)),
    ({"initial_state": lambda z: dist.Normal(jnp.log(-jnp.exp(z["theta"])) * jnp.ones(2), 1.0)},
     ("initial_state gave", "drawn from their priors")),
    ({"initial_state": lambda z: jnp.log(-jnp.exp(z["theta"])) * jnp.ones(2)}, ("initial_state gave", "priors")),
    ({"scheme": pf.CustomScheme(lambda x, z, v, delta, t: x + RNG.normal() * v, 2)}, ("step gives another value",)),
    ({"initial_state": dist.Normal}, ("initial_state is the class Normal", "instance")),
    ({"drift": dict}, ("drift must be a function",)),
    ({"observation": pf.Noiseless}, ("observation must be pf.Noiseless(h)",)),
    ({"parameters": {"state": dist.Normal(0.0, 1.0)}}, ("'state' needs another name",)),
    ({"initial_state": dist.Normal(jnp.zeros((2, 2)), 1.0)}, ("initial_state has shape (2, 2)", "one dimension")),
    ({"initial_state": "origin"}, ("initial_state gave 'origin'", "array")),
    ({"initial_state": [0.0, np.nan]}, ("initial_state is not finite",)),
    ({"initial_state": dist.Poisson(jnp.ones(2))}, ("initial_state", "discrete")),
    ({"initial_state": lambda z: dist.Normal(z["mu"] * jnp.ones(2), 1.0)}, ("initial_state asks for parameter 'mu'",)),
    ({"initial_state": lambda: jnp.zeros(2)}, ("initial_state raised TypeError",)),
    ({"observation": lambda x, z: x}, ("observation must be pf.Noiseless",)),
    ({"observation": pf.Noiseless(lambda x, z: x[0])}, ("observation function returned shape ()", "x[:1]")),
    ({"observation": pf.Noiseless(lambda x, z: x[3:4] if x.shape == (9,) else x[0] > 0)}, ("bool",)),
    ({"observation": pf.Noiseless(lambda x: x)}, ("observation function takes arguments (x)",)),
    ({"observation": pf.Noiseless(lambda x, z: z["eta"] * x)}, ("observation function asks for parameter 'eta'",)),
    ({"observation": pf.NoisyObservation(lambda x, z: x, 1)}, ("takes arguments (x, z)", "(x, z, w)")),
    ({"observation": pf.GaussianNoise(**GAUSSIAN, scale="sigmaa")}, ("scale names parameter 'sigmaa'", "'theta'")),
    (
        {"observation": pf.NoisyObservation(lambda x, z, w: x + w, dist.Normal(jnp.zeros((2, 2)), 1.0))},
        ("observation noise has shape (2, 2)", "one dimension"),
    ),
    ({"observation": pf.NoisyObservation(lambda x, z, w: x + w, dist.Poisson(1.0))}, ("noise", "discrete")),
    ({"observation": pf.NoisyObservation(lambda x, z, w: x + w, [0.0, 1.0])}, ("not random", "pf.Noiseless")),
    (
        {"observation": pf.NoisyObservation(lambda x, z, w: x + w, lambda z: dist.StudentT(z["nu"]))},
        ("the observation noise asks for parameter 'nu'",),
    ),
    ({"observation": pf.GaussianNoise(**GAUSSIAN, scale=-0.1)}, ("scale is not positive",)),
    ({"observation": pf.GaussianNoise(**GAUSSIAN, scale=np.array([0.1, -0.1]))}, ("scale is not positive",)),
    ({"observation": pf.GaussianNoise(**GAUSSIAN, scale=np.zeros(2))}, ("scale is not positive", "pf.Noiseless")),
    ({"observation": pf.GaussianNoise(**GAUSSIAN, scale=0.0)}, ("scale is not positive", "pf.Noiseless")),
    ({"observation": pf.GaussianNoise(**GAUSSIAN, scale=lambda z: -z["sigma"])}, ("scale is not positive", "prior")),
    ({"observation": pf.GaussianNoise(**GAUSSIAN, scale=lambda z: z["eta"])}, ("scale asks for parameter 'eta'",)),
    ({"observation": pf.GaussianNoise(**GAUSSIAN, scale=np.ones(3))}, ("scale has shape (3,)", "(2,)")),
    ({"observation": pf.GaussianNoise(**GAUSSIAN, scale=np.ones((2, 2)))}, ("singular",)),
    ({"observation": pf.GaussianNoise(**GAUSSIAN, scale=["a"])}, ("scale is ['a']", "positive number")),
    ({"observation": pf.GaussianNoise(mean=0.3, scale=0.1)}, ("observation mean must be a function",)),  # pyright: ignore[reportArgumentType]
    ({"scheme": pf.EulerMaruyama}, ("scheme must be a scheme such as pf.EulerMaruyama()",)),
    ({"scheme": pf.CustomScheme(lambda x, z, v, delta, t: v, 3)}, ("step returned shape (3,)", "expected (2,)")),
    ({"scheme": pf.CustomScheme(lambda x, z, v: x, 1)}, ("step raised TypeError",)),
    ({"scheme": pf.Milstein(), "diffusion": lambda x, z: jnp.array([[1.0, 0.0], [0.0, x[0]]])},
     ("pf.Milstein()", "pf.EulerMaruyama()")),
    ({"scheme": pf.StrongOrder1p5(), "diffusion": lambda x, z: jnp.diag(x)}, ("additive", "pf.Milstein()")),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "words"), MISTAKES)
def test_each_mistake_has_its_sentence(changes, words):
    with pytest.raises(pf.ModelError) as caught:
        build(**changes)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize("noise", [0, -1, 1.5, True, "sigma"])
def test_noise_that_is_neither_a_number_nor_a_distribution_is_refused(noise):
    with pytest.raises(pf.ModelError, match=r"distribution of w.*positive integer"):
        pf.NoisyObservation(lambda x, z, w: x, noise)


@pytest.mark.parametrize(
    ("noise", "size", "exact", "expected"),
    [
        (2, 2, True, [1.0, 2.0]),
        (dist.Normal(1.0, 3.0), 1, True, [4.0]),
        (dist.LogNormal(np.zeros(2), 1.0), 2, True, np.exp([1.0, 2.0])),
        ([dist.Normal(0.0, 2.0), dist.Laplace(0.0, 1.0)], 2, True, [2.0, -np.log(2 * norm.sf(2.0))]),
        (dist.StudentT(4.0).expand([2]), 2, False, None),
        (lambda z: [dist.StudentT(z["theta"])] * 2, 2, False, None),
    ],
)
def test_observation_noise(noise, size, exact, expected):
    model = build(observation=pf.NoisyObservation(lambda x, z, w: x + w, noise))
    observation: Any = model.observation
    assert (model.observation_noise_dim, observation.map.excess is None) == (size, exact)
    if expected is None:
        return
    with jax.enable_x64(True):
        z = {"theta": jnp.array(3.0), "sigma": jnp.array(1.0)}
        seen = observe(model, jnp.zeros(2), z, jnp.array([1.0, 2.0])[:size], 0.0)
        np.testing.assert_allclose(seen, np.broadcast_to(expected, 2), rtol=1e-12)


@pytest.mark.parametrize(
    ("observation", "exact"),
    [
        (pf.Noiseless(lambda x, z: x), [True, True]),
        (pf.GaussianNoise(lambda x, z: x, 0.1), [False, False]),
        (pf.GaussianNoise(lambda x, z: x, np.array([0.0, 0.1])), [True, False]),
        (pf.GaussianNoise(lambda x, z: x, lambda z: jnp.array([z["sigma"], 0.0])), [False, True]),
        (pf.GaussianNoise(lambda x, z: x, np.array([[1.0, 0.0], [1.0, 1.0]])), [False, False]),
        (pf.NoisyObservation(lambda x, z, w: x + w, 2), [False, False]),
    ],
)
def test_which_components_are_observed_exactly(observation, exact):
    assert build(observation=observation).exactly_observed.tolist() == exact


def test_draws_of_noise_follow_its_distribution():
    given = [dist.StudentT(3.0, 1.0, 2.0), dist.Gamma(2.0, 1.5), dist.Normal(1.0, 2.0)]
    laws = [student_t(3.0, 1.0, 2.0), gamma(2.0, scale=1 / 1.5), norm(1.0, 2.0)]
    noise = ConditionalMap.build("noise", given, {})
    with jax.enable_x64(True):
        w = noise.draw({}, np.random.default_rng(1), 4000)
        values = np.asarray(jax.vmap(lambda w: noise.push({}, w))(w))
    for i, law in enumerate(laws):
        assert kstest(values[:, i], law.cdf).pvalue > 1e-3
    assert np.abs(np.corrcoef(norm.ppf([law.cdf(values[:, i]) for i, law in enumerate(laws)]))[0, 1:]).max() < 0.07


EXAMPLES = [
    (ornstein_uhlenbeck.noiseless, (1, 1, 1, 1, 0, 3, 1)),
    (ornstein_uhlenbeck.noisy, (1, 1, 1, 1, 1, 3, 1)),
    (integrated_ornstein_uhlenbeck.noiseless, (2, 1, 2, 1, 0, 2, 2)),
    (integrated_ornstein_uhlenbeck.noisy, (2, 1, 2, 1, 1, 2, 2)),
    (fitzhugh_nagumo.noiseless, (2, 1, 2, 1, 0, 4, 2)),
    (fitzhugh_nagumo.noisy, (2, 1, 2, 1, 1, 4, 2)),
    (cox_ingersoll_ross.noiseless, (1, 1, 1, 1, 0, 3, 1)),
    (cox_ingersoll_ross.noisy, (1, 1, 1, 1, 1, 3, 1)),
    (sir.noisy, (3, 3, 3, 1, 1, 5, 1)),
]


@pytest.mark.parametrize(("example", "sizes"), EXAMPLES)
def test_sizes_of_the_example_models(example, sizes):
    model = example()
    assert sizes == (
        model.state_dim,
        model.wiener_dim,
        model.noise_dim,
        model.observation_dim,
        model.observation_noise_dim,
        model.parameters.size,
        model.initial_state.size,
    )


@pytest.mark.parametrize("example", [example for example, _ in EXAMPLES])
def test_every_function_traces_in_double_precision(example):
    with jax.enable_x64(True):
        for function, examples in example().user_functions().values():
            assert jax.eval_shape(function, *examples).dtype == np.float64


def greedy(x, z, *_):
    """-theta x, and writes into z."""
    z["theta"] = 2.0 * z["theta"]
    z["sigma"] *= 3.0
    return -0.5 * z.pop("theta") * x


def test_what_a_function_writes_into_z_is_seen_by_no_other():
    """A drift, a scale, an initial state and a step that change the dict of parameters leave the others' alone."""

    def start(z):
        z["sigma"] *= 100.0
        return dist.Normal(z["theta"] * jnp.ones(2), 1.0)

    def scale(z):
        z["theta"] *= 50.0
        return 0.1 * z["theta"]

    plain = build(observation=pf.GaussianNoise(lambda x, z: x * z["sigma"], lambda z: 5.0 * z["theta"]))
    model = build(
        drift=greedy,
        initial_state=start,
        observation=pf.GaussianNoise(lambda x, z: x * z.pop("sigma"), scale),
    )
    custom = build(scheme=pf.CustomScheme(lambda x, z, v, delta, t: x + z.pop("theta") * v, 2))
    with jax.enable_x64(True):
        z = {"theta": jnp.array(1.5), "sigma": jnp.array(0.5)}
        x, v = jnp.array([1.0, -1.0]), jnp.array([0.3, 0.2])
        np.testing.assert_array_equal(model.step(z, x, v, 0.1, 0.0), plain.step(z, x, v, 0.1, 0.0))
        seen = [observe(each, x, z, v, 0.0) for each in (model, plain)]
        np.testing.assert_array_equal(*seen)
        np.testing.assert_array_equal(model.initial_state.push(z, v), 1.5 + v)
        np.testing.assert_array_equal(custom.step(z, x, v, 0.1, 0.0), x + 1.5 * v)
        assert z == {"theta": 1.5, "sigma": 0.5}


def test_an_index_that_depends_on_the_state_may_be_clamped():
    """A table that is read out by the state: where the model lives the index may be in range."""
    table = np.arange(3.0)
    build(drift=lambda x, z: jnp.asarray(table)[jnp.floor(5.0 * x).astype(int)])
    build(drift=lambda x, z: x * x[(5.0 * x[0]).astype(int)])


def test_the_global_precision_is_left_alone():
    build()
    assert jnp.zeros(1).dtype == np.float32


def test_functions_of_time_get_the_time():
    model = build(
        drift=lambda x, z, t: t * x,
        diffusion=lambda x, z, t=0.0: t * jnp.eye(2),
        observation=pf.NoisyObservation(lambda x, z, w, t: x + t * w[0], 1),
    )
    with jax.enable_x64(True):
        z = {"theta": jnp.array(1.0), "sigma": jnp.array(1.0)}
        step = model.step(z, jnp.ones(2), jnp.array([1.0, 2.0]), 0.25, 3.0)
        np.testing.assert_allclose(step, 1.0 + 0.75 + 0.5 * 3.0 * np.array([1.0, 2.0]))
        np.testing.assert_allclose(observe(model, jnp.ones(2), z, jnp.array([2.0]), 3.0), [7.0, 7.0])


@pytest.mark.parametrize(
    ("scale", "noise"),
    [
        (0.5, [0.5, 1.0]),
        (np.array([1.0, 3.0]), [1.0, 6.0]),
        (np.array([[1.0, 0.0], [1.0, 1.0]]), [1.0, 3.0]),
        ("sigma", [0.2, 0.4]),
        (lambda z: z["sigma"] * jnp.array([1.0, 2.0]), [0.2, 0.8]),
        (lambda z, t: (1 + t) * z["sigma"], [0.8, 1.6]),
    ],
)
def test_gaussian_noise_has_its_scale(scale, noise):
    model = build(observation=pf.GaussianNoise(lambda x, z: x, scale))
    with jax.enable_x64(True):
        z = {"theta": jnp.array(1.0), "sigma": jnp.array(0.2)}
        np.testing.assert_allclose(observe(model, jnp.zeros(2), z, jnp.array([1.0, 2.0]), 3.0), noise)


@pytest.mark.parametrize(
    ("initial_state", "size", "expected"),
    [
        (dist.Normal(jnp.zeros(2), 2.0), 2, [2.0, 4.0]),
        (dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2)), 2, [1.0, 2.0]),
        (lambda z: dist.Normal(jnp.array([0.0, z["theta"]]), 1.0), 2, [1.0, 5.0]),
        (lambda z: jnp.array([1.0, z["theta"]]), 0, [1.0, 3.0]),
        (lambda z: [1.0, z["theta"]], 0, [1.0, 3.0]),
        (np.array([1, 2]), 0, [1.0, 2.0]),
        ([0.5, dist.Normal(1.0, 1.0)], 1, [0.5, 2.0]),
    ],
)
def test_initial_states(initial_state, size, expected):
    model = build(initial_state=initial_state)
    assert model.initial_state.size == size
    assert model.initial_state.excess is None
    with jax.enable_x64(True):
        z = {"theta": jnp.array(3.0), "sigma": jnp.array(1.0)}
        np.testing.assert_allclose(model.initial_state.push(z, jnp.array([1.0, 2.0])[:size]), expected)


def test_an_initial_state_with_a_density_is_the_same_function_traced_or_not():
    model = build(initial_state=lambda z: dist.Gamma(jnp.array([2.0, 3.0]), z["theta"]))
    excess, push = model.initial_state.excess, model.initial_state.push
    assert excess is not None
    with jax.enable_x64(True):
        z, v0 = {"theta": jnp.array(1.7), "sigma": jnp.array(1.0)}, jnp.array([0.3, -0.6])
        np.testing.assert_allclose(jax.jit(push)(z, v0), push(z, v0), rtol=1e-12)
        np.testing.assert_allclose(jax.jit(excess)(z, v0), excess(z, v0), rtol=1e-12)


def test_quantiles_that_cannot_be_compiled_give_way_to_a_density():
    model = build(parameters={"theta": dist.Exponential(1.0), "sigma": dist.LogNormal(0.0, 1.0)})
    assert model.parameters.excess is None
    restricted = model.restricted_to(lambda function, *examples: "erf" not in str(jax.make_jaxpr(function)(*examples)))
    assert restricted.parameters.excess is not None
    assert restricted.parameters.maps["sigma"].excess is None
    assert model.parameters.excess is None


def test_parameters_as_a_vector_and_by_name():
    parameters, varying = build_parameters(
        {"a": dist.Normal(0.0, 1.0), "b": 2.5, "c": dist.Normal(np.zeros((2, 2)), 1.0), "d": dist.Delta(4.0)}
    )
    assert (parameters.size, parameters.z_size, varying.size, varying.z_size) == (5, 7, 0, 0)
    flat = np.array([1.0, 2.5, 1.0, 2.0, 3.0, 4.0, 4.0])
    back = parameters.unflatten(flat)
    assert back["a"] == 1.0
    np.testing.assert_array_equal(back["c"], [[1.0, 2.0], [3.0, 4.0]])
    with jax.enable_x64(True):
        np.testing.assert_array_equal(parameters.push(jnp.array([1.0, 1.0, 2.0, 3.0, 4.0])), flat)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"theta": 1.0, "sigma": 1.0, "tau": 2.0}, ("unknown parameter 'tau'", "'theta', 'sigma'")),
        ({"theta": 1.0}, ("no value", "'sigma'")),
        ({"theta": [1.0, 2.0], "sigma": 1.0}, ("'theta'", "shape (2,)", "expected ()")),
    ],
)
def test_parameter_values_are_checked(values, words):
    with pytest.raises(pf.ModelError) as caught:
        pf.simulate(build(), values, [1.0], steps_per_interval=1)
    assert all(word in str(caught.value) for word in words)


def test_a_model_shows_its_names():
    lines = repr(EXAMPLE.model()).splitlines()
    assert lines[:5] == [
        "DiffusionModel",
        "  states: gut, blood",
        "  observed: concentration",
        "  events: dose",
        "  scheme: EulerMaruyama",
    ]
    assert lines[5:7] == ["  parameters:", "    ka ~ LogNormal(loc=0, scale=0.5)"]
    assert lines[-2].startswith('    CL (by series) ~ lambda z: dist.LogNormal(jnp.log(z["CL_mean"]), z["CL_spread')
    assert repr(build()).startswith("DiffusionModel\n  states: 2\n")
    many = build(parameters=build().priors | {f"k{i}": float(i) for i in range(40)})
    assert len(repr(many).splitlines()) <= 25
    assert "    k3 = 3.0\n" in repr(many)
    assert repr(many).endswith("    and 27 more")


def test_a_model_may_have_no_parameters():
    model = build(drift=lambda x, z: -x, diffusion=lambda x, z: jnp.eye(2), parameters={})
    assert (model.parameters.size, model.parameters.z_size) == (0, 0)
    with jax.enable_x64(True):
        assert model.parameters.push(jnp.zeros(0)).shape == (0,)


def test_data_of_another_width_are_refused():
    check_data(build(), pf.Observations([1.0], [[0.0, 1.0]]))
    with pytest.raises(pf.DataError, match=r"values have 1 columns.*\(T, 2\)"):
        check_data(build(), pf.Observations([1.0], [0.0]))


def test_a_start_that_cannot_meet_what_is_observed_of_it_is_refused():
    at_start = pf.Observations([0.0, 1.0], [[1.0, np.nan], [1.0, 2.0]])
    check_data(build(), at_start)
    check_data(build(initial_state=[1.0, dist.Normal(0.0, 1.0)]), at_start)
    check_data(build(initial_state=[1.0, 2.0], observation=pf.GaussianNoise(lambda x, z: x, 0.1)), at_start)
    check_data(build(initial_state=[1.0, 2.0]), pf.Observations([0.0], [[1.0, 2.0]], initial_time=-1.0))
    with pytest.raises(pf.DataError, match=r"initial state, observed at initial_time = 0\.0, is fixed.*distribution"):
        check_data(build(initial_state=[1.0, 2.0]), at_start)


def test_the_influenza_data_fit_the_model():
    check_data(sir.noisy(), sir.data())
