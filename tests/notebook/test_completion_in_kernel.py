"""Tab after each command, in a kernel: what a front end receives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

from pipemagic.notebook import sql_options
from pipemagic.notebook.commands import COMMANDS

WAIT = 60  # seconds; a few are usual


@pytest.fixture(scope="module")
def kernel(tmp_path_factory) -> Iterator[BlockingKernelClient]:
    """Yield a kernel with a temporary database that is connected."""
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(tmp_path_factory.mktemp("kernel")))
    try:
        for line in ("%load_ext pipemagic", "%pipedb connect --temporary", "%sql CREATE TABLE city (name TEXT)"):
            client.execute_interactive(line, timeout=WAIT, output_hook=lambda _: None)
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def completions(kernel: BlockingKernelClient, cell: str) -> list[str]:
    return kernel.complete(cell, reply=True, timeout=WAIT)["content"]["matches"]


def test_connect_offers_a_temporary_database_first(kernel):
    first, *others = completions(kernel, "%pipedb connect ")
    assert first == "--temporary"
    assert "temporary" in others  # the connection
    assert "--temporary" not in completions(kernel, "%pipedb connect --temporary ")


def test_each_command_offers_its_own_options_and_values_only(kernel):
    for name, command in COMMANDS.items():
        options = [option.flag for option in command.options if option.flag != "--"]
        offered = completions(kernel, f"%pipedb {name} ")
        flags = [text for text in offered if text.startswith("-") and text != "--"]
        assert sorted(flags) == sorted([*options, "--help"]), name
        assert not [text for text in offered if "%" in text or text in ("and", "if", "in")], name
        for positional in command.positionals[:1]:
            assert {*positional.choices} <= {*offered}, name


@pytest.mark.parametrize("cell", ["%sql ", "%%sql ", "x = %sql "])
def test_sql_offers_options_then_statements(kernel, cell):
    offered = completions(kernel, cell)
    flags = [option.flag for option in sql_options.OPTIONS]
    assert offered[: len(flags)] == flags
    assert {"SELECT", "WITH", "INSERT INTO"} <= {*offered}
    assert not [text for text in offered if "%" in text]


def test_vs_code_finds_the_place_of_each_completion_and_the_help_on_it(kernel):
    """It reads the metadata of the reply, and asks for help with the text of the completion in its place."""
    cell = "%%sql\nSELECT na"
    content = kernel.complete(cell, reply=True, timeout=WAIT)["content"]
    items = content["metadata"]["_jupyter_types_experimental"]
    assert [item["text"] for item in items] == content["matches"]
    place = items[content["matches"].index("name")]
    chosen = cell[: place["start"]] + place["text"] + cell[place["end"] :]
    help_on_it = kernel.inspect(chosen, reply=True, timeout=WAIT)["content"]
    assert help_on_it["data"] == {"text/plain": "city.name: TEXT"}
