"""The recorder of README's pictures still works; it runs in a shared process (see host.py)."""

from __future__ import annotations

from PIL import Image

RECORDER = "../../.ci/record_pictures.py"


def test_a_picture_can_be_recorded(run, tmp_path):
    run(RECORDER, tmp_path, "panel")
    with Image.open(tmp_path / "panel.gif") as picture:
        assert picture.n_frames >= 30
    assert (tmp_path / "panel.gif").stat().st_size < 1_000_000
