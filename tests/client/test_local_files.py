"""Paths of files where an address is expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipemagic.client import local_files


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("shop.db", "shop.db"), ("SHOP.DB", "SHOP.DB"), ("shop.sqlite3", "shop.sqlite3"), ("./shop.db", "./shop.db"),
        ("data/shop.db", "data/shop.db"), ("../shop", "../shop"), ("/abs/shop", "/abs/shop"), ("~/shop", "~/shop"),
        (r"C:\data\shop.db", r"C:\data\shop.db"), ("C:/data/shop", "C:/data/shop"),
        (r"\\server\shop", r"\\server\shop"),
        ("file:shop.db", "shop.db"), ("file:shop", "shop"), ("file:///abs/shop.db?mode=ro", "/abs/shop.db"),
        ("file://localhost/abs/x", "/abs/x"), ("file:///C:/my%20data/x.db", "C:/my data/x.db"), ("sqlite:shop", "shop"),
        ("jdbc:sqlite:/abs/shop.db", "/abs/shop.db"), ("jdbc:sqlite:shop.db", "shop.db"), ("dump.sql", "dump.sql"),
        ("my shop.db", "my shop.db"), ("flights.csv", "flights.csv"),
        ("", ""), ("shop", ""), ("flights-2", ""), ("http://h/shop.db", ""), ("sqlite:///shop.db", ""),
        ("h.turso.io", ""),
        ("localhost:8080", ""), ("127.0.0.1:8080", ""), ("[::1]:8080", ""), (":memory:", ""),
        ("file::memory:?cache=shared", ""), ("sqlite::memory:", ""),
        ("main.sales", ""), ("acme/flights", ""), ("a\0b", ""),
    ],
)  # fmt: skip
def test_paths(text: str, path: str) -> None:
    assert local_files.path_in(text) == path


def test_an_existing_file_is_a_path_unless_a_database_can_have_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert local_files.path_in("My.Shop") == ""
    for name in ("My.Shop", "shop"):
        Path(name).touch()
    assert local_files.path_in("My.Shop") == "My.Shop"
    assert local_files.path_in("shop") == ""


@pytest.mark.parametrize("text", [":memory:", "file::memory:?cache=shared", "sqlite::memory:", "jdbc:sqlite::memory:"])
def test_memory(text: str) -> None:
    assert local_files.is_in_memory(text)
