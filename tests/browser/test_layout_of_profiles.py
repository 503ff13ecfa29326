"""Test the layout of a profile in a real browser; the script runs in a shared process (see host.py)."""

from __future__ import annotations

import os
from pathlib import Path

from pipemagic.explore.profile_result import ColumnProfile, Profile, ValueCount

ROWS = 336_776
NULLS = 8_255


def number(name: str, largest: int) -> ColumnProfile:
    quartiles = (largest // 4, largest // 2, largest * 3 // 4)
    return ColumnProfile(
        name, "INTEGER", "number", ROWS, NULLS, 1_318, {"integer": ROWS}, -largest, largest, largest / 3, quartiles,
        bins=tuple(range(0, 120, 10)),
    )  # fmt: skip


def text(name: str, value: str) -> ColumnProfile:
    common = tuple(ValueCount(value, 58_665 - n) for n in range(5))
    return ColumnProfile(name, "TEXT", "text", ROWS, 0, 4_043, {"text": ROWS}, "9E", value, common=common)


def test_a_profile_of_19_columns_is_readable_at_1280_860_and_400_px(run, tmp_path):
    columns = [number("dep_delay", 1301), number("large", 999_999_999), text("day", "2013-12-31 23:59:00"),
               number("a_long_name_of_a_column_without_any_space", 9_876_543),
               text("carrier", "UA"), text("<remarks>", "a long text that is cut …"),
               *(number(f"sched_time_{place}", 2_359) for place in range(13))]  # fmt: skip
    page = tmp_path / "profile.html"
    html = Profile("flights", ROWS, tuple(columns))._repr_html_()
    page.write_text(f"<body style='font: 13px system-ui; margin: 0 10px'>{html}", encoding="utf-8")
    folder = os.environ.get("PIPEMAGIC_SCREENSHOTS")
    arguments = [Path(folder)] if folder else []
    assert run("layout_of_profiles.py", page, *arguments) == ["1280 px", "860 px", "400 px"]
