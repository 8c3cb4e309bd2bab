"""Settings shared by all tests."""

from hypothesis import HealthCheck, settings

# A draw builds native code: seconds, not milliseconds. Derandomised, so that a run is the same everywhere.
settings.register_profile(
    "pathfold",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("pathfold")
