"""A real kernel: completion, inspection, interrupts, no standard input, shutdown."""

from __future__ import annotations

import json
import os
import queue
import re
import time
from dataclasses import dataclass, field
from typing import Any

import httpx
import psutil
import pytest
from jupyter_client.manager import KernelManager
from waiting import until

from pipemagic import launcher
from pipemagic.session.interrupts import UNDER_WAY

ENDLESS = "SELECT count(*) FROM (WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT i FROM c)"
PATIENCE = 30.0


@dataclass
class Reply:
    """The reply and the outputs of a cell."""

    status: str
    name: str = ""
    text: str = ""
    outputs: list[dict[str, Any]] = field(default_factory=list)


class Kernel:
    """A kernel process that runs cells."""

    def __init__(self, environment):
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(env=environment)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=PATIENCE)

    def send(self, code):
        return self.client.execute(code, allow_stdin=False)

    def run_cell(self, identity, code):
        """Run code as a cell of JupyterLab, which has an identity."""
        request = self.client.session.msg("execute_request", {"code": code, "silent": False, "allow_stdin": False})
        request["metadata"] = {"cellId": identity}
        self.client.shell_channel.send(request)
        return self.reply(request["header"]["msg_id"])

    def reply(self, message, timeout=PATIENCE):
        reply = Reply("?")
        end = time.monotonic() + timeout
        while reply.status == "?" or not reply.name:
            content = self._next(self.client.get_shell_msg, message, end)["content"]
            reply.status, reply.name = content["status"], content.get("ename", "-")
        while True:
            got = self._next(self.client.get_iopub_msg, message, end)
            if got["msg_type"] == "status" and got["content"]["execution_state"] == "idle":
                return reply
            reply.outputs.append(got)
            reply.text += got["content"].get("text", "") + "\n".join(got["content"].get("traceback", []))

    def _next(self, get, message, end):
        while True:
            try:
                got = get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                pytest.fail("the kernel did not respond in time")
            if got["parent_header"].get("msg_id") == message:
                return got

    def run(self, code):
        return self.reply(self.send(code))

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=False)
        self.manager.cleanup_resources()


@pytest.fixture(scope="module")
def running(shared_service, tmp_path_factory):
    """Return the kernel of this module, restarted if a test has ended it."""
    folders = {"IPYTHONDIR": tmp_path_factory.mktemp("ipython"), launcher.FOLDER_VARIABLE: shared_service.folder}
    kernels = []

    def running():
        if not kernels or not kernels[-1].manager.is_alive():
            kernels.append(Kernel({**os.environ, **{name: str(folder) for name, folder in folders.items()}}))
        return kernels[-1]

    yield running
    for kernel in kernels:
        kernel.close()


@pytest.fixture
def kernel(running, local_service):
    """A kernel with a new session, which finds an embedded service without databases."""
    kernel = running()
    for line in ("%load_ext pipemagic", "%unload_ext pipemagic", "%load_ext pipemagic"):
        assert kernel.run(line).status == "ok"
    return kernel


def send_endless(kernel, data, head=""):
    """Run an endless statement, and wait until the service has worked on it for longer than UNDER_WAY.

    What the service did besides (it reads the schema after each change) is work, too: hence more than that alone.
    """
    service = psutil.Process(json.loads((data / "service.json").read_text())["pid"])
    before = sum(service.cpu_times()[:2])
    message = kernel.send(f"%sql {head}{ENDLESS}")
    until(lambda: sum(service.cpu_times()[:2]) >= before + UNDER_WAY + 0.4)
    return message


def complete(kernel, cell):
    """Return the completions at the | of a cell with their kinds, and the text that they replace."""
    at = cell.index("|")
    code = cell[:at] + cell[at + 1 :]
    content = kernel.client.complete(code, at, reply=True, timeout=PATIENCE)["content"]
    assert content["status"] == "ok"
    kinds = [completion["type"] for completion in content["metadata"]["_jupyter_types_experimental"]]
    replaced = code[content["cursor_start"] : content["cursor_end"]]
    return list(zip(content["matches"], kinds, strict=True)), replaced


def test_completion_in_a_kernel(kernel):
    assert kernel.run('%pipedb connect\n%sql CREATE TABLE city (name, "first name")').status == "ok"
    city = ([("city", "table")], "CI")
    until(lambda: complete(kernel, "%%sql\nSELECT * FROM CI|") == city)
    found, replaced = complete(kernel, "%%sql -o 😀\n-- 😀\nSELECT c.| FROM city AS c")
    assert (found, replaced) == ([("name", "column"), ('"first name"', "column")], "")
    ((name, description),), replaced = complete(kernel, "%pipedb connect --tempo|")
    assert (name, description.split("\u00a0")[0], replaced) == ("--temporary", "option:", "--tempo")
    assert complete(kernel, "%%sql\nSELECT 'pri|'")[0] == []
    assert ("print", "function") in complete(kernel, "prin|")[0]


def inspect(kernel, cell, detail_level=0):
    """Return the help that Shift+Tab shows at the | of a cell, None if there is none."""
    at = cell.index("|")
    code = cell[:at] + cell[at + 1 :]
    content = kernel.client.inspect(code, at, detail_level, reply=True, timeout=PATIENCE)["content"]
    assert content["status"] == "ok"
    assert content["found"] == bool(content["data"])
    return re.sub(r"\x1b\[[0-9;]*m", "", content["data"]["text/plain"]) if content["found"] else None


def test_inspection_in_a_kernel(kernel):
    assert kernel.run('%pipedb connect\n%sql CREATE TABLE city (name TEXT NOT NULL, "first name")').status == "ok"
    kernel.run("city = name = 'a variable'\ndef plus(a):\n    return a + 1")
    table = 'city: table, 2 columns\n  name          TEXT  NOT NULL\n  "first name"'
    until(lambda: inspect(kernel, "%%sql\nSELECT * FROM city|") == table)
    full = inspect(kernel, "%%sql -o 😀\n-- 😀\nSELECT * FROM city|", detail_level=1)
    assert full == f'{table}\n\nCREATE TABLE city (name TEXT NOT NULL, "first name");'
    assert inspect(kernel, "%sql SELECT c.na|me FROM city c") == "city.name: TEXT NOT NULL"
    assert inspect(kernel, "%%sql\nSELECT 'ci|ty'") is None
    assert inspect(kernel, "%pipedb connect --temporar|y").startswith("--temporary\n")
    assert "a variable" in inspect(kernel, "cit|y")
    assert "Signature: plus(a)" in inspect(kernel, "plus(|)")
    assert "return a + 1" in inspect(kernel, "plus(|)", detail_level=1)
    assert inspect(kernel, "nothing_of_that_name|") is None


def test_unloading_restores_the_kernel(kernel):
    own = "print('do_inspect' in vars(get_ipython().kernel))"
    assert kernel.run(own).text == "True\n"
    kernel.run("city = 'a variable'\n%unload_ext pipemagic")
    assert kernel.run(own).text == "False\n"
    assert "a variable" in inspect(kernel, "%%sql\nSELECT * FROM city|")
    kernel.run("%load_ext pipemagic\nkernel = get_ipython().kernel\ntheirs = kernel.do_inspect")
    kernel.run("def ours(*args):\n    return theirs(*args)\nkernel.do_inspect = ours")
    assert inspect(kernel, "%%sql\nSELECT * FROM city|") is None
    kernel.run("%unload_ext pipemagic")
    assert "a variable" in inspect(kernel, "%%sql\nSELECT * FROM city|")  # our wrapper passes the request on
    kernel.run("%load_ext pipemagic\n%unload_ext pipemagic")
    assert kernel.run("print(kernel.do_inspect is ours)").text == "True\n"
    kernel.run("del kernel.do_inspect")


def test_an_interrupt_stops_a_statement_and_the_next_cell_works(kernel, local_service):
    assert "Connected to main (embedded service)." in kernel.run("%pipedb connect").text
    kernel.run("%sql CREATE TABLE t (a)")
    message = send_endless(kernel, local_service.folder)
    kernel.manager.interrupt_kernel()
    reply = kernel.reply(message)
    assert (reply.status, reply.name) == ("error", "InterruptedRequest")
    assert len(reply.text.splitlines()) < 6
    assert "interrupted while a request was pending" in reply.text
    assert "The cell only reads: nothing was changed." in reply.text
    assert "1 row affected." in kernel.run("%sql INSERT INTO t VALUES (1)").text


def test_an_interrupt_in_a_transaction_reports_what_is_undone(kernel, local_service):
    kernel.run("%pipedb connect\n%sql CREATE TABLE t (a)")
    kernel.run("%sql BEGIN IMMEDIATE; INSERT INTO t VALUES (1)")  # 5 s from here on
    message = send_endless(kernel, local_service.folder)
    kernel.manager.interrupt_kernel()
    assert "INSERT INTO t VALUES (1)" in kernel.reply(message).text
    assert kernel.run("%sql COMMIT").name == "TransactionLost"
    assert kernel.run("%sql ROLLBACK").status == "ok"
    assert "0" in str(kernel.run("%sql SELECT count(*) AS n FROM t").outputs[-1]["content"]["data"])


def test_an_interrupted_write_is_reported_as_not_applied(kernel, local_service):
    kernel.run("%pipedb connect\n%sql CREATE TABLE t (a)")
    kernel.run("%sql INSERT INTO t VALUES (1)")
    message = send_endless(kernel, local_service.folder, "INSERT INTO t ")
    kernel.manager.interrupt_kernel()
    reply = kernel.reply(message)
    assert "No part of it was applied" in reply.text
    assert kernel.run("%sql INSERT INTO t VALUES (2)").status == "ok"
    assert "2" in str(kernel.run("%sql SELECT count(*) AS n FROM t").outputs[-1]["content"]["data"])


def test_an_interrupt_stops_the_statement_on_sqld(kernel, sqld, sqld_database):
    kernel.run(f"import os; os.environ['T'] = {sqld_database.token!r}")
    kernel.run(f"%pipedb connect {sqld_database.url} --token-env T --as main\n%sql CREATE TABLE t (a)")
    kernel.run("%sql INSERT INTO t VALUES (1)")  # now the replication index is known to grow
    process = psutil.Process(sqld.process.pid)
    before = sum(process.cpu_times()[:2])
    message = kernel.send(f"%sql INSERT INTO t {ENDLESS}")
    until(lambda: sum(process.cpu_times()[:2]) >= before + UNDER_WAY + 0.4)
    kernel.manager.interrupt_kernel()
    reply = kernel.reply(message)
    assert "No part of it was applied" in reply.text
    assert kernel.run("%sql INSERT INTO t VALUES (2)").status == "ok"  # the write lock is free


def test_errors_stop_run_all_and_are_short(kernel):
    reply = kernel.run("%pipedb connect\n%sql SELECT nope\nprint('not reached')")
    assert reply.status == "error"
    assert "not reached" not in reply.text
    plain = re.sub(r"\x1b\[[0-9;]*m", "", reply.text)
    assert "Traceback" not in plain
    assert plain.endswith("UNKNOWN_NAME: no such column: nope\n  SELECT nope\n         ^")


def test_connecting_without_standard_input_does_not_prompt_for_a_token(kernel, sqld_database):
    reply = kernel.run(f"%pipedb connect {sqld_database.url}")
    assert reply.name == "SessionError"
    assert "PIPEMAGIC_TOKEN" in reply.text


def test_the_end_of_a_kernel_rolls_its_transaction_back(kernel, local_service):
    """The stream is closed, and does not wait for its time limits."""
    kernel.run("%pipedb connect\n%sql CREATE TABLE t (a)\n%sql BEGIN IMMEDIATE")
    kernel.client.shutdown()
    kernel.manager.finish_shutdown(waittime=10)
    assert "pipemagic_transactions_open 0.0" in metrics(local_service)


def metrics(service):
    headers = {"authorization": f"Bearer {service.platform_token()}"}
    return httpx.get(f"{service.url}/metrics", headers=headers, timeout=PATIENCE).text.splitlines()


def test_a_cell_that_runs_again_closes_its_grid(kernel):
    view = "application/vnd.jupyter.widget-view+json"

    def outputs(reply):
        return [output["content"]["data"] for output in reply.outputs if output["msg_type"] == "display_data"]

    assert kernel.run("%pipedb connect").status == "ok"
    assert kernel.run("import pandas as pd\nsales = pd.DataFrame({'n': range(30)})").status == "ok"
    first = outputs(kernel.run_cell("a", "g = %sql --grid SELECT n FROM sales\ng"))
    again = outputs(kernel.run_cell("a", "old = g\ng = %sql --grid SELECT n FROM sales\ng"))
    assert first[0][view]["model_id"] != again[0][view]["model_id"]
    closed = kernel.run_cell("b", "print(old.comm, old.model.page.relation.args)\nold")
    assert closed.text == "None {}\n"  # the rows of the frame are no longer in memory
    (form,) = outputs(closed)
    assert "Rows 1 to 25 of 30" in form["text/html"]
    assert view not in form
