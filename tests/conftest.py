"""Settings shared by all tests."""

from hypothesis import HealthCheck, Phase, settings

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
