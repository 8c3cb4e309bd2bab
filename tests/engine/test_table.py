"""Every name in the layout table belongs to something: a misspelled one would leave native code with a zero."""

from __future__ import annotations

import re
from pathlib import Path

from pathfold.engine import native
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
    listed = {(block, name) for block, names in at.RECORDS.items() for name in names.split()}
    assert listed == {(block, name) for each in records() for block, names in each.blocks.items() for name in names}
    fields = {
        (name, field)
        for each in records()
        for names in each.blocks.values()
        for name in names
        for field in each[name].fields
    }
    assert {(record, name) for record, names in at.FIELDS.items() for name in names.split()} <= fields


def test_no_two_names_have_one_offset():
    others = {"CONSTRAINED", "UNCONSTRAINED", "GUIDED", "LAPLACE", "INTEGRATED", "END", "SIZE"}
    words = {name: value for name, value in vars(at).items() if name.isupper() and type(value) is int}
    words = {
        name: value for name, value in words.items() if name not in others and not name.startswith(("LAYOUT_", "_"))
    }
    assert len({*words.values()}) == len(words)
    assert max(words, key=lambda name: words[name]) == "LENGTH"
    begins = [at.record_place(block, name) for block, names in at.RECORDS.items() for name in names.split()]
    assert begins == [begins[0] + 3 * i for i in range(len(begins))]  # three numbers each


def test_native_code_names_what_the_table_has():
    """To a type checker the table has every name."""
    for file in Path(native.__path__[0]).glob("*.py"):
        missing = {name for name in re.findall(r"\bat\.([A-Z]\w*)", file.read_text()) if not hasattr(at, name)}
        assert not missing, file.name
