"""Every name in the layout table belongs to something: a misspelled one would leave native code with a zero."""

from __future__ import annotations

import pytest

from pathfold.engine import table as at
from pathfold.engine.compile import (
    CONSTRAINED_METHOD,
    GUIDED_METHOD,
    LAPLACE_METHOD,
    SEGMENTED_METHOD,
    UNCONSTRAINED_METHOD,
)
from pathfold.engine.records import Sizes

SIZES = Sizes(X=2, M=2, V=2, U=2, Z=2, Y=1, W=1, V0=2, IN=1, F=1, C=1)
METHODS = (CONSTRAINED_METHOD, SEGMENTED_METHOD, UNCONSTRAINED_METHOD, GUIDED_METHOD, LAPLACE_METHOD)


def records():
    return [method.records(SIZES, regular=False, censored=1, metric=True) for method in METHODS]


def test_records_and_fields_of_the_table_are_those_of_the_methods():
    blocks = {(block, name) for each in records() for block, names in each.blocks.items() for name in names}
    assert {*at.place_record.by_name} == blocks
    fields = {
        (name, field)
        for each in records()
        for names in each.blocks.values()
        for name in names
        for field in each[name].fields
    }
    assert {*at.place_field.by_name} <= fields


def test_no_two_names_have_one_place():
    every = [at.place_record, at.place_field]
    begins = [min(each.by_name.values()) for each in every]
    assert begins[1:] == [each.end for each in every[:-1]]
    assert every[-1].end == at.PLANS
    with pytest.raises(AssertionError, match="theta"):
        at.place_record("point", "theta")
