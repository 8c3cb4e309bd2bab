"""Work spread over threads: the same results for any number of them, and nothing begun after an error."""

from __future__ import annotations

import time

import pytest

from pathfold.sampling.spread import spread


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("count", [0, 1, 7])
def test_results_are_in_order_for_any_number_of_threads(threads, count):
    assert spread(lambda i: i**2, count, threads) == [i**2 for i in range(count)]


@pytest.mark.parametrize("threads", [1, 2])
def test_after_an_error_nothing_is_begun(threads):
    begun = []

    def work(i: int) -> None:
        begun.append(i)
        if i == 0:
            raise ValueError("the first fails")
        time.sleep(0.05)

    with pytest.raises(ValueError, match="the first fails"):
        spread(work, 100, threads)
    assert len(begun) < 10
