"""`pathfold doctor`: a healthy installation is told so, an ill one is not."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from pathfold import doctor
from pathfold.cli import main

SAMPLE = doctor.sample


@cache
def sampled():
    """The run of the self-test, once for all tests."""
    kept = []

    def keep(*given, **settings):
        kept.append(SAMPLE(*given, **settings))
        return kept[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(doctor, "sample", keep)
        found = doctor.self_test()
    return kept[0], found


def test_the_self_test_finds_the_exact_posterior():
    _, found = sampled()
    assert found.faults == []
    assert "4000 draws" in found.lines[0]


def test_the_exact_posterior_is_that_of_the_dense_joint_normal():
    times, values = np.array([0.5, 2.0, 3.0]), np.array([1.0, -0.5, 2.0])
    rows = np.column_stack([times, np.ones(3), np.tri(3) * np.sqrt(np.diff(times, prepend=0.0)), 0.5 * np.eye(3)])
    gain = rows.T @ np.linalg.inv(rows @ rows.T)
    mean, deviation = doctor.exact_drift(times, values)
    assert mean == pytest.approx((gain @ values)[0])
    assert deviation**2 == pytest.approx(1.0 - (gain @ rows)[0, 0])


def test_a_healthy_installation(monkeypatch, capsys):
    tree, _ = sampled()
    monkeypatch.setattr(doctor, "sample", lambda *given, **settings: tree)
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for part in ("pathfold 0.", "Python 3.", "jax 0.", "cache: ", "sampler: ready after", "pathfold is healthy."):
        assert part in out


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (lambda tree: tree.posterior["mu"].values.__iadd__(0.1), "standard errors away from the exact one"),
        (lambda tree: tree.posterior["mu"].values.__imul__(1.2), "standard deviation is not the exact one"),
        (lambda tree: tree.sample_stats["status"].values.__setitem__((0, 0), 2), "1 of 4000 trajectories failed"),
    ],
)
def test_an_ill_installation(monkeypatch, capsys, fault, sentence):
    tree = sampled()[0].copy(deep=True)
    fault(tree)
    monkeypatch.setattr(doctor, "sample", lambda *given, **settings: tree)
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert sentence in out
    assert "NOT healthy" in out


def test_a_warning_is_a_fault(monkeypatch, capsys):
    def warning(*given, **settings):
        import warnings

        warnings.warn("the chains do not agree", stacklevel=1)
        return sampled()[0]

    monkeypatch.setattr(doctor, "sample", warning)
    assert main(["doctor"]) == 1
    assert "the chains do not agree" in capsys.readouterr().out


def test_a_cache_that_cannot_be_used_is_told_of(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("PATHFOLD_CACHE", str(tmp_path / "file"))
    assert any("cannot be used (it is not a folder): set PATHFOLD_CACHE" in line for line in doctor.surroundings())


def test_the_version_is_told(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("pathfold 0.")
