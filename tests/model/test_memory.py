"""How much room a request takes."""

from __future__ import annotations

import pytest

from pathfold.errors import SettingsError
from pathfold.model.memory import check_disk


def test_a_file_that_another_process_replaces_is_no_failure(tmp_path):
    """It is listed and then not there, as a link to nothing is."""
    (tmp_path / "draws").write_bytes(bytes(100))
    (tmp_path / "replaced").symlink_to(tmp_path / "gone")
    check_disk("a run", 50, tmp_path, "fewer draws")
    with pytest.raises(SettingsError, match=r"a run would take .* of the disk"):
        check_disk("a run", 2**80, tmp_path, "fewer draws")
