"""Every quantity of the engine against the dense oracle, on models drawn at random; see `test_oracle.py`."""

from __future__ import annotations

import pytest
from hypothesis import given, seed, settings

from tests.engine.models import cases
from tests.engine.test_oracle import errors, exceeded


@settings(max_examples=1)
@given(cases())
def test_random_models(case):
    assert not exceeded(*errors(case))


@pytest.mark.slow
@settings(max_examples=150)
@seed(1)
@given(cases())
def test_many_random_models(case):
    assert not exceeded(*errors(case))


@pytest.mark.slow
@settings(max_examples=150)
@seed(2)
@given(cases(scaled=True))
def test_many_random_models_at_many_scales(case):
    assert not exceeded(*errors(case))
