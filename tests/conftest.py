"""Settings shared by all tests."""

import gc
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

# Processes that tests start import what was compiled to bytecode once, also where this one is told to write none.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# What JAX compiles here runs for less time than compiling it takes, and workers compile much that is the same: they
# share it, and so do later runs.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
# Tracing takes most of the time that models take here: it keeps no record of which line of a test an operation is from.
os.environ.setdefault("JAX_TRACEBACK_FILTERING", "off")
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")
# Matrices are small here, and every core has a worker: threads of BLAS would wait for each other, at full speed.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A draw may build native code: seconds, not milliseconds, too long to shrink what fails. Derandomised, so that a run is
# the same everywhere.
settings.register_profile(
    "pathfold",
    deadline=None,
    derandomize=True,
    print_blob=True,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("pathfold")


# Files that take a worker ten seconds or more, the longest first: begun first, so that no worker is left with one of
# them at the end.
LONG = """
test_native test_edited_results test_tempered test_starts test_docs test_check test_trace test_example_models
test_hierarchy test_experiments test_covariates test_abreast test_exact_targets test_marginal test_docs_after
test_report test_replicas test_laplace test_whole_turns test_half_steps test_groups test_linear_steps test_rows
test_roots test_step test_oracle test_refine test_calibrate test_likelihoods test_warm_starts test_heuristics
test_parts test_modes test_deterministics test_odd_calls test_compile test_particle_filter test_fit
test_compiled_models test_profile test_residuals test_log_likelihood test_transitions test_diagnosis test_any_data
test_scales test_priors test_reproducible test_guided test_way_back test_diffusion_model test_plots test_posterior
test_keeping test_transform test_model_cache test_predict test_failures test_cli test_lebesgue test_checkpoint
test_nonmem test_population_plots test_peers
""".split()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: LONG.index(item.path.stem) if item.path.stem in LONG else len(LONG))


def pytest_collection_finish() -> None:
    """Let the collector of garbage come seldom, and leave alone what was imported: tracing makes many small objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)


@pytest.fixture
def builds(monkeypatch) -> list[str]:
    """Grows with every model that is built."""
    from pathfold.engine.compile import CompiledModel

    made, build = [], CompiledModel._build

    def counted(self):
        made.append("built")
        return build(self)

    monkeypatch.setattr(CompiledModel, "_build", counted)
    return made
