"""The gallery of examples: its pages are what its script writes, their code runs, and their pictures are small."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pathfold as pf
from pathfold.data import panel_of
from pathfold.example_models import EXAMPLES
from scripts import gallery
from tests.thorough import thorough

LARGEST = 40_000  # bytes of a picture


@pytest.mark.parametrize("name", thorough(EXAMPLES, "ornstein_uhlenbeck", "doses", "seir", "redstart"))
def test_a_page_has_the_text_and_code_of_its_example(name):
    text = (gallery.FOLDER / f"{name}.md").read_text()
    table = gallery.between(text, "table")
    assert text == gallery.page(EXAMPLES[name], table), f"run `python scripts/gallery.py {name}`"
    assert all(f"| `{parameter}" in table for parameter in EXAMPLES[name].model().priors)


def test_every_picture_is_small_and_belongs_to_an_example():
    pictures = [*(gallery.FOLDER / "figures").iterdir()]
    assert sorted(picture.stem for picture in pictures) == sorted(EXAMPLES)
    assert max(picture.stat().st_size for picture in pictures) < LARGEST


def test_the_cards_are_those_of_the_examples():
    assert gallery.between(gallery.CARDS.read_text(), "gallery") == gallery.cards()


def test_every_example_has_a_field():
    named = " ".join(gallery.FIELDS.values()).split()
    assert set(named) == set(EXAMPLES)


@pytest.mark.parametrize("name", ["doses", "hare_lynx"])
def test_code_samples_the_model_and_data_of_the_example(name, monkeypatch):
    given: list[Any] = []
    monkeypatch.setattr(pf, "sample", lambda *called, **settings: given.append((*called, settings)))
    exec(gallery.code(EXAMPLES[name]), {})
    ((model, data, settings),) = given
    assert [*model.priors] == [*EXAMPLES[name].model().priors]
    assert settings == {"steps_per_interval": EXAMPLES[name].steps_per_interval}
    for mine, theirs in zip(panel_of(data).values(), panel_of(EXAMPLES[name].data()).values(), strict=True):
        np.testing.assert_array_equal(mine.values, theirs.values)
