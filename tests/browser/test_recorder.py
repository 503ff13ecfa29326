"""The recorder of README's pictures still works; it runs in a shared process (see host.py)."""

from __future__ import annotations

import pytest
from PIL import Image

RECORDER = "../../.ci/record_pictures.py"


@pytest.mark.parametrize(("name", "frames"), [("session", 40), ("panel", 30)])
def test_a_picture_can_be_recorded(run, tmp_path, name, frames):
    run(RECORDER, tmp_path, name)
    with Image.open(tmp_path / f"{name}.gif") as picture:
        assert picture.n_frames >= frames
    assert (tmp_path / f"{name}.gif").stat().st_size < 1_000_000
