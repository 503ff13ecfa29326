"""Opening a panel in a kernel while its service does not answer yet: what the cell shows, and when."""

from __future__ import annotations

import os
import threading

import pytest
from jupyter_client.manager import KernelManager
from waiting import PATIENCE, until

LIVE = "application/vnd.jupyter.widget-view+json"
SAVED = "text/html"
WAITING = "import pipemagic.notebook.panels.ground.widget as widget\nwidget.PATIENCE = {}"
NOTHING_YET = "No answer had come when this was saved: run the cell again."


@pytest.fixture(scope="module")
def service(hosted_for_long):
    """A hosted service with the database flights, which answers no question about groups before `go_on` is set."""
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
    """The service, which does not answer yet."""
    service.go_on.clear()
    yield service
    service.go_on.set()


@pytest.fixture
def kernel(slow, process):
    """The kernel with the extension, and a session that has asked nothing."""
    process.run("%load_ext pipemagic")
    yield process
    slow.go_on.set()
    process.run("%unload_ext pipemagic")


class Kernel:
    """A kernel process, with what the last cell showed, in its order."""

    def __init__(self, environment):
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(env=environment)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=PATIENCE)

    def run(self, code, when_shown=lambda data: None, status="ok"):
        """Run a cell; ``status`` is how it must end, ``when_shown`` hears of each output. Gives the outputs."""
        self.shown = []

        def hear(message):
            if message["msg_type"] in ("display_data", "execute_result", "error"):
                self.shown.append(message["content"].get("data", message["content"]))
                when_shown(self.shown[-1])

        reply = self.client.execute_interactive(code, allow_stdin=False, output_hook=hear, timeout=2 * PATIENCE)
        assert reply["content"]["status"] == status, reply["content"]
        return self.shown

    def gives(self, expression):
        """Evaluate an expression; gives its text."""
        return self.run(expression)[0]["text/plain"]

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()


@pytest.mark.parametrize("name", ["databases", ""])
def test_the_live_panel_is_there_before_the_answers(slow, kernel, name):
    kernel.run(WAITING.format(PATIENCE))
    live, saved = kernel.run(f"%pipedb panel {name}", lambda data: slow.go_on.set() if LIVE in data else None)
    assert (LIVE in live, live["text/plain"]) == (True, "")
    assert set(saved) == {SAVED, "text/plain"}
    assert "  flights  edge" in saved["text/plain"]


def test_a_service_that_does_not_answer_is_not_waited_for(slow, kernel):
    kernel.run(WAITING.format(0.3))
    live, saved = kernel.run("import pipemagic\npanel = pipemagic.panels.databases()\npanel")
    assert not slow.go_on.is_set()
    assert LIVE in live
    assert saved["text/plain"] == f"Databases\n{NOTHING_YET}"
    slow.go_on.set()
    until(lambda: kernel.gives("'flights' in str(panel.tree)") == "True")  # the live one goes on


BEGINS = "application/x-begins-to-wait"
TELLING = f"""
from IPython.display import publish_display_data
settle = widget.Panel.settle
def tell_and_settle(panel):
    publish_display_data({{"{BEGINS}": ""}})
    settle(panel)
widget.Panel.settle = tell_and_settle
"""


def test_an_interrupt_while_it_waits_leaves_the_panel(slow, kernel):
    kernel.run(WAITING.format(1e6) + TELLING)

    def interrupt(data):
        if BEGINS in data:
            kernel.manager.interrupt_kernel()

    live, _, saved, *_ = kernel.run("%pipedb panel databases", interrupt, status="error")  # that stops Run All
    kernel.run("widget.Panel.settle = settle")
    assert not slow.go_on.is_set()
    assert LIVE in live
    assert saved["text/plain"] == f"Databases\n{NOTHING_YET}"
