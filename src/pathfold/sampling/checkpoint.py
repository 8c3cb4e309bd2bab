"""Saving a chain while it runs, so that a run that was killed resumes where it was, to the bit."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pathfold.errors import DataError


@dataclass(frozen=True)
class Checkpoint:
    """The file of one chain in a checkpoint folder. A save replaces the last one at once or not at all."""

    folder: Path
    chain: int

    @property
    def file(self) -> Path:
        return self.folder / f"chain_{self.chain}.npz"

    def save(self, arrays: dict[str, Any]) -> None:
        draft = self.file.with_suffix(".draft")
        with draft.open("wb") as stream:
            np.savez(stream, **arrays)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(self.file)

    def load(self) -> dict[str, Any] | None:
        if not self.file.exists():
            return None
        with np.load(self.file, allow_pickle=False) as stored:
            return dict(stored)


def claim_folder(folder: Path, fingerprint: str) -> None:
    """Make a checkpoint folder for a run, or make sure that the one there belongs to the same run."""
    folder.mkdir(parents=True, exist_ok=True)
    mark = folder / "run"
    if mark.exists():
        if mark.read_text() != fingerprint:
            raise DataError(
                f"the checkpoint folder {folder} belongs to a run with another model, other data or other settings: "
                "give the same ones to resume it, or another folder to start afresh"
            )
        return
    draft = folder / "run.draft"
    draft.write_text(fingerprint)
    draft.replace(mark)
