"""The look at a gRPC port, beside real ones."""

from __future__ import annotations

import json
from pathlib import Path

from sqld_engine import SqldEngineProcess, until
from sqld_server import Sqld

from pipemagic.service.sqld.binary import free_port
from pipemagic.service.sqld.checks import lets_anybody_in


def test_a_port_without_tls_is_found(sqld_binary: Path, tmp_path: Path):
    port = free_port()
    server = Sqld(sqld_binary, tmp_path, "--grpc-listen-addr", f"127.0.0.1:{port}")
    try:
        assert until(lambda: lets_anybody_in(f"http://127.0.0.1:{port}"))
    finally:
        server.close()
    assert not lets_anybody_in(f"http://127.0.0.1:{port}")


def test_the_port_of_local_nodes_is_closed(sqld_engine: SqldEngineProcess):
    ports = json.loads((sqld_engine.folder / "nodes" / "ports.json").read_text())
    assert not lets_anybody_in(f"https://127.0.0.1:{ports['ams'][2]}")
