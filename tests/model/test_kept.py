"""What is kept with a model: made once, by whoever makes it, and not by name."""

from __future__ import annotations

import pytest

from pathfold.model.kept import Kept


def test_what_is_kept_is_made_once_for_what_it_is_given():
    made = []

    def double(number: int) -> int:
        made.append(number)
        return 2 * number

    kept = Kept()
    assert [kept.get(double, 1), kept.get(double, 2), kept.get(double, 1)] == [2, 4, 2]
    assert made == [1, 2]


def test_two_makers_never_meet_even_if_they_have_one_name():
    def maker(value):
        def make():
            return value

        return make

    kept, one, other = Kept(), maker("one"), maker(None)
    for _ in range(2):
        assert kept.get(one) == "one"
        assert kept.get(other) is None
    assert len(kept) == 2


def test_of_objects_that_are_equal_each_has_its_own():
    """Methods are known by their object: an observation need not be hashable."""
    kept, one, other = Kept(), [1], [1]
    assert kept.get(one.copy) == kept.get(other.copy)
    assert len(kept) == 2


def test_what_fails_leaves_nothing():
    kept = Kept()
    with pytest.raises(ZeroDivisionError):
        kept.get(divmod, 1, 0)
    assert len(kept) == 0
