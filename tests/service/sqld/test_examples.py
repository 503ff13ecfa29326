"""The example files of the page on clusters: they parse, fit each other, and name only options that sqld has."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import yaml

from pipemagic.service.sqld.nodes import _Entry, load

EXAMPLES = Path(__file__).parents[3] / "examples"
COMPOSE = EXAMPLES / "sqld-compose.yaml"
PAGE = EXAMPLES.parent / "docs" / "operators" / "cluster.md"


def services() -> dict[str, dict[str, object]]:
    return yaml.safe_load(COMPOSE.read_text("utf-8"))["services"]


def test_compose_names_only_options_of_sqld(sqld_binary: Path):
    known = subprocess.run([sqld_binary, "--help"], capture_output=True, text=True, check=True).stdout
    for service in services().values():
        for argument in service["command"]:
            assert f"{argument.partition('=')[0]} " in known.replace("\n", " "), argument
        for variable in service["environment"]:
            assert f"[env: {variable}=]" in known


def test_compose_and_nodes_fit_each_other():
    nodes = load(EXAMPLES / "nodes.toml", {"SQLD_ADMIN_KEY": "x"})
    found = services()
    assert set(found) == {node.code for node in nodes}
    for node in nodes:
        code = node.code
        published = {port.rsplit(":", 1)[0]: port.rsplit(":", 1)[1] for port in found[code]["ports"]}
        assert published[urlsplit(node.http).netloc] == "8080"
        assert published[urlsplit(node.admin).netloc] == "8081"
        primary = any(argument.startswith("--grpc-listen-addr") for argument in found[code]["command"])
        assert primary == (node is nodes[0])


def test_the_page_shows_a_file_and_explains_each_key(tmp_path: Path):
    page = PAGE.read_text("utf-8")
    (shown,) = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "nodes.toml").write_text(shown, "utf-8")
    primary, replica = load(tmp_path / "nodes.toml", {"SQLD_ADMIN_KEY": "x"})
    assert primary.url("shop-local") == "https://shop-local.ams.db.example.org"
    assert replica.url("shop-local") == "http://shop-local.nrt.db.example.org:8080"
    section = page.partition("## The nodes' file")[2].partition("\n## ")[0]
    keys = {"primary", *(key.name for key in msgspec.structs.fields(_Entry))}
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == keys
