"""The checks of a node's ports, with real ones."""

from __future__ import annotations

import json
import socketserver
import threading
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from sqld_engine import SqldEngineProcess
from sqld_server import Sqld
from waiting import until

from pipemagic.errors import ServiceError
from pipemagic.service.catalog.catalog import Catalog
from pipemagic.service.service import Service
from pipemagic.service.sqld.admin import Admin, NodeDown
from pipemagic.service.sqld.engine import SqldEngine
from pipemagic.service.sqld.local_nodes import free_port
from pipemagic.service.sqld.nodes import Node, accepts_plain_http2, refuse_open, warnings


def test_a_port_without_tls_is_found(sqld_binary: Path, tmp_path: Path):
    port = free_port()
    server = Sqld(sqld_binary, tmp_path, "--grpc-listen-addr", f"127.0.0.1:{port}")
    try:
        assert until(lambda: accepts_plain_http2(f"http://127.0.0.1:{port}"))
    finally:
        server.close()
    assert not accepts_plain_http2(f"http://127.0.0.1:{port}")


def test_open_ports_of_a_node_are_found(sqld_binary: Path, tmp_path: Path):
    """A server with a key for tokens and none for its admin API, then one without either."""
    with closing(Sqld(sqld_binary, tmp_path / "half")) as server:
        half = Node("ams", server.address, f"http://127.0.0.1:{server.admin_port}")
        refuse_open(half)
        assert [warning for warning in warnings(half) if "admin port" in warning]
        assert not [warning for warning in warnings(half) if "gRPC" in warning]
    with closing(Sqld(sqld_binary, tmp_path / "open", checked=False)) as server:
        node = Node("ams", server.address, f"http://127.0.0.1:{server.admin_port}")
        service = Service(tmp_path / "data", partial(SqldEngine, nodes=[node]))
        with closing(service), pytest.raises(ServiceError, match="without a token") as raised:
            service.start()
        assert "--auth-jwt-key-file" in raised.value.hint


def test_the_ports_of_local_nodes_are_closed(sqld_engine: SqldEngineProcess):
    ports = json.loads((sqld_engine.folder / "nodes" / "ports.json").read_text())
    for code, (http, admin, grpc) in ports.items():
        node = Node(code, *(f"http://127.0.0.1:{port}" for port in (http, admin, grpc)))
        refuse_open(node)
        assert list(warnings(node)) == []


@pytest.mark.parametrize(("primary", "what"), [("ams", "databases of the embedded service"), ("nrt", "at ams")])
def test_a_folder_of_other_databases_is_refused(tmp_path: Path, primary: str, what: str):
    """Otherwise empty namespaces would replace the data."""
    catalog = Catalog(tmp_path / "catalog.sqlite", domain="localhost", now=lambda: 0.0)
    catalog.create_group("local", "g", "ams")
    (tmp_path / "databases" / catalog.create_database("local", "d", "g").id).mkdir(parents=True)
    catalog.close()
    node = Node(primary, "http://127.0.0.1:9", "http://127.0.0.1:9")
    service = Service(tmp_path, partial(SqldEngine, nodes=[node]))
    with closing(service), pytest.raises(ServiceError, match=what) as raised:
        service.start()
    assert "--data" in raised.value.hint


@pytest.mark.parametrize(("closed", "is_up"), [(1, True), (2, False)])
def test_a_check_is_repeated_once_if_the_node_closes_the_connection(closed, is_up):
    """Sqld does so by chance, so a server that always does for the first requests takes its place."""
    methods = []

    class Closing(socketserver.StreamRequestHandler):
        def handle(self):
            methods.append(self.rfile.readline().split()[0])
            if len(methods) > closed:
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    with socketserver.TCPServer(("127.0.0.1", 0), Closing) as server:
        threading.Thread(target=server.serve_forever).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        with closing(Admin(Node("ams", address, address))) as admin:
            if is_up:
                admin.check()
            else:
                with pytest.raises(NodeDown, match="does not respond"):
                    admin.check()
        server.shutdown()
    assert methods == [b"GET", b"GET"]
