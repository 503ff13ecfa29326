"""Opening a panel in a kernel while its service does not respond yet."""

from __future__ import annotations

import os
import threading

import pytest
from jupyter_client.manager import KernelManager
from waiting import PATIENCE, until

from pipemagic.notebook.panels.base import INTERRUPTED, NO_RESPONSE

LIVE = "application/vnd.jupyter.widget-view+json"
SAVED = "text/html"
WAITING = "import pipemagic.notebook.panels.base as base\nbase.PATIENCE = {}"


@pytest.fixture(scope="module")
def service(hosted_for_long):
    """A hosted service with the database flights, which delays requests for groups until `go_on` is set."""
    api, session = hosted_for_long()
    session.platform.create_group("edge", "nrt")
    session.platform.create_database("flights", "edge")
    api.go_on, answer = threading.Event(), api.answer

    def wait_and_answer(call):
        assert not call.path.endswith("/groups") or api.go_on.wait(PATIENCE)
        return answer(call)

    api.answer = wait_and_answer
    yield api
    api.go_on.set()


@pytest.fixture(scope="module")
def process(service, tmp_path_factory):
    """A kernel whose sessions use the service."""
    folder = tmp_path_factory.mktemp("kernel")
    own = {"IPYTHONDIR": str(folder / "ipython"), "PIPEMAGIC_DATA": str(folder / "data"), **service.environment}
    kernel = Kernel({**os.environ, **own})
    yield kernel
    kernel.close()


@pytest.fixture
def slow(service):
    """The service, which does not respond yet."""
    service.go_on.clear()
    yield service
    service.go_on.set()


@pytest.fixture
def kernel(slow, process):
    """The kernel with the extension, and a session that has requested nothing."""
    process.run("%load_ext pipemagic")
    yield process
    slow.go_on.set()
    process.run("%unload_ext pipemagic")


class Kernel:
    """A kernel process, with the outputs of the last cell."""

    def __init__(self, environment):
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(env=environment)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=PATIENCE)

    def run(self, code, when_shown=lambda data: None, status="ok"):
        """Run a cell, which must end with ``status``; call ``when_shown`` with each output. Return the outputs."""
        self.shown = []

        def hear(message):
            if message["msg_type"] in ("display_data", "execute_result", "error"):
                self.shown.append(message["content"].get("data", message["content"]))
                when_shown(self.shown[-1])

        reply = self.client.execute_interactive(code, allow_stdin=False, output_hook=hear, timeout=2 * PATIENCE)
        assert reply["content"]["status"] == status, reply["content"]
        return self.shown

    def evaluate(self, expression):
        """Return the text of the value of an expression."""
        return self.run(expression)[0]["text/plain"]

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()


@pytest.mark.parametrize("name", ["databases", ""])
def test_the_live_panel_is_displayed_before_the_data(slow, kernel, name):
    kernel.run(WAITING.format(PATIENCE))
    live, saved = kernel.run(f"%pipedb panel {name}", lambda data: slow.go_on.set() if LIVE in data else None)
    assert (LIVE in live, live["text/plain"]) == (True, "")
    assert set(saved) == {SAVED, "text/plain"}
    assert "  flights  edge" in saved["text/plain"]


def test_the_cell_ends_although_the_service_does_not_respond(slow, kernel):
    kernel.run(WAITING.format(0.3))
    live, saved = kernel.run("import pipemagic\npanel = pipemagic.panels.databases()\npanel")
    assert not slow.go_on.is_set()
    assert LIVE in live
    assert saved["text/plain"] == f"Databases\n{NO_RESPONSE}"
    slow.go_on.set()
    until(
        lambda: kernel.evaluate("'flights' in [row['key'] for row in panel.table.rows]") == "True"
    )  # the live one continues


BEGINS = "application/x-begins-to-wait"
ANNOUNCING = f"""
from IPython.display import publish_display_data
wait = base.Panel.wait
def announce_and_wait(panel):
    publish_display_data({{"{BEGINS}": ""}})
    wait(panel)
base.Panel.wait = announce_and_wait
"""


def test_an_interrupt_while_it_waits_keeps_the_panel(slow, kernel):
    kernel.run(WAITING.format(1e6) + ANNOUNCING)

    def interrupt(data):
        if BEGINS in data:
            kernel.manager.interrupt_kernel()

    live, _, saved, *_, error = kernel.run("%pipedb panel databases", interrupt, status="error")  # it stops Run All
    kernel.run("base.Panel.wait = wait")
    assert not slow.go_on.is_set()
    assert LIVE in live
    assert saved["text/plain"] == f"Databases\n{NO_RESPONSE}"
    assert error["traceback"] == [INTERRUPTED]
