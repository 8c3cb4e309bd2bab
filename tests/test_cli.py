"""The command line, on a tiny run."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest

from pathfold.cli import main
from pathfold.engine import model_cache
from pathfold.example_models import EXAMPLES
from pathfold.program.machine import machine_name


def test_examples_are_listed_with_their_references(capsys):
    assert main(["examples"]) == 0
    out = capsys.readouterr().out
    for example in EXAMPLES.values():
        assert example.name in out
        assert example.summary in out
        assert example.reference in out


def test_an_unknown_example_gives_the_names(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["examples", "ornstein"])
    assert caught.value.code == 2
    message = capsys.readouterr().err
    assert "there is no example 'ornstein'" in message
    assert all(name in message for name in EXAMPLES)


@pytest.mark.filterwarnings("ignore:(.*) has (not converged|few effective draws)")
def test_an_example_runs_and_leaves_pictures(capsys, tmp_path):
    assert main(["examples", "ornstein_uhlenbeck", "--draws", "10", "--folder", str(tmp_path / "new")]) == 0
    out = capsys.readouterr().out
    for name, value in (EXAMPLES["ornstein_uhlenbeck"].truth or {}).items():
        (line,) = [line for line in out.splitlines() if line.startswith(f"{name} ")]
        assert float(line.split()[1]) == value
    assert "effective draws per second" in out
    for picture in ("paths.png", "marginals.png"):
        assert (tmp_path / "new" / picture).stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["demo", "--draws", "0"], "draws"),
        (["demo", "--observations", "0"], "the series is empty"),
        (["examples", "sir", "--seed", "-1"], "seed"),
    ],
)
def test_settings_that_cannot_be_used_are_one_sentence(arguments, sentence, capsys, tmp_path):
    assert main([*arguments, "--folder", str(tmp_path)]) == 2
    message = capsys.readouterr().err
    assert message.startswith("pathfold: ")
    assert sentence in message
    assert message.count("\n") == 1


def test_a_folder_that_cannot_hold_pictures_is_named_before_anything_is_drawn(capsys, tmp_path):
    file = tmp_path / "file"
    file.touch()
    assert main(["demo", "--folder", str(file)]) == 2
    assert f"pathfold: --folder='{file}' cannot be used: " in capsys.readouterr().err


def test_windows_is_told_at_once_that_it_is_not_supported():
    code = "import sys; sys.platform = 'win32'; import pathfold"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ImportError: pathfold does not run on Windows yet: use it in")


WITHOUT_PLOTS = """
import importlib.util, sys, warnings

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("arviz", "arviz_base", "arviz_plots", "matplotlib"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "matplotlib" else find(name, *rest)
from pathfold.cli import main
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    main(["examples", "ornstein_uhlenbeck", "--draws", "10", "--folder", sys.argv[1]])
print(any("converged" in str(each.message) or "effective draws" in str(each.message) for each in caught))
"""


def test_a_base_installation_is_not_blind(tmp_path):
    """Without the plots extra: diagnostics all the same, and a sentence in the place of pictures."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PLOTS, str(tmp_path / "new")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "r_hat" in done.stdout
    assert "no pictures: they need Matplotlib" in done.stdout
    assert done.stdout.splitlines()[-1] == "True", "it warns of ten draws"
    assert not (tmp_path / "new").exists()


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """The files of two compiled models, one of them for another machine, in a folder with a file of the user's."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("PATHFOLD_CACHE", str(folder))
    here, elsewhere = (hashlib.sha256(name).hexdigest() for name in (b"here", b"elsewhere"))
    model_cache.keep(here, machine_name(), model_cache.Entry({"gram": bytes(3 * 2**20)}, {"carried": 37, "states": 2}))
    model_cache.keep(elsewhere, "another CPU", model_cache.Entry({"gram": bytes(2048)}, {"carried": 5}))
    (folder / "thesis.tex").write_text("mine")
    return folder / f"{here}.model", folder / f"{elsewhere}.model"


def test_compiled_models_are_listed(capsys, kept):
    assert main(["cache"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head == f"{kept[0].parent}: 2 compiled models, 3.0 MiB (limit 1024.0 MiB)"
    here, elsewhere = (next(line for line in lines if path.stem[:12] in line) for path in kept)
    assert "3.0 MiB  last used 2" in here
    assert "valid, for this machine; carried 37, states 2; pathfold 0." in here
    assert ", jax 0." in here
    assert ", llvmlite 0." in here
    assert "valid, for another machine; carried 5; " in elsewhere


def test_damaged_models_are_told_of(capsys, kept):
    assert main(["cache", "--verify"]) == 0
    assert "no compiled model is damaged" in capsys.readouterr().out
    kept[0].write_bytes(kept[0].read_bytes()[:-1] + b"?")
    assert main(["cache", "--verify"]) == 1
    line, sentence = capsys.readouterr().out.splitlines()
    assert line == f"{kept[0]}: its checksum is wrong"
    assert sentence.startswith("1 compiled model cannot be used")
    assert main(["cache"]) == 0
    assert "not valid: its checksum is wrong" in capsys.readouterr().out


def test_compiled_models_are_cleared(capsys, kept):
    assert main(["cache", "--clear"]) == 0
    assert capsys.readouterr().out == f"{kept[0].parent}: 2 files removed, 3.0 MiB.\n"
    assert [path.name for path in kept[0].parent.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("task", [[], ["--verify"], ["--clear"]])
def test_a_cache_that_cannot_be_used_is_told_of(capsys, tmp_path, monkeypatch, task):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("PATHFOLD_CACHE", str(tmp_path / "file"))
    assert main(["cache", *task]) == 1
    message = capsys.readouterr().err
    assert f"cannot use {tmp_path / 'file'}: it is not a folder. Fix this, or name another folder" in message
