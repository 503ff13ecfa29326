"""A token is found in every part of a notebook and reported with its location."""

from __future__ import annotations

import base64
import json
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipemagic.secret_scan import UnreadableFile, files_in, scan_file

TOKEN = "eyJhbGciOiJFZERTQSJ9.eyJhIjoicnciLCJpYXQiOjF9.c2lnbmF0dXJlLW9mLWl0"


@pytest.fixture
def leaks(tmp_path):
    """Write a notebook of these cells and read it."""

    def leaks(*cells, name="n.ipynb", **document):
        path = tmp_path / name
        whole = {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **document}
        path.write_text(json.dumps(whole), encoding="utf-8")
        return [(finding.cell, finding.where, finding.kind, finding.text) for finding in scan_file(path)]

    return leaks


def code(source="", outputs=(), **more):
    return {"cell_type": "code", "id": "a", "metadata": {}, "execution_count": 1, "source": source,
            "outputs": list(outputs), **more}  # fmt: skip


def shown(**data):
    return {"output_type": "display_data", "metadata": {}, "data": data}


def test_locations_of_findings(leaks):
    widgets = "application/vnd.jupyter.widget-state+json"
    html, widget = f"<td>{TOKEN}</td>", "application/vnd.jupyter.widget-view+json"
    found = leaks(
        code(["x = 1\n", f"connect('{TOKEN}')"]),
        code(outputs=[
            {"output_type": "stream", "name": "stderr", "text": [TOKEN]},
            shown(**{"text/plain": "fine", "text/html": html}),
            {"output_type": "error", "ename": "E", "evalue": "", "traceback": ["a", f"\x1b[0;31m{TOKEN}\x1b[0m"]},
            {"output_type": "execute_result", "metadata": {"x": TOKEN}, "data": {widget: {"model_id": TOKEN}}},
        ]),
        {"cell_type": "markdown", "metadata": {"tags": [TOKEN]}, "source": "",
         "attachments": {"a.svg": {"image/svg+xml": TOKEN}}},
        code(id=TOKEN),
        metadata={"widgets": {widgets: {"state": {"a": {"state": {"value": TOKEN}}}}},
                  "kernelspec": {TOKEN: 1}},
    )  # fmt: skip
    assert [(cell, where) for cell, where, _, _ in found] == [
        ("1", "source"), ("2", "output 1 stderr"), ("2", "output 2 text/html"), ("2", "output 3 error"),
        ("2", f"output 4 {widget}"), ("2", "output 4 metadata"), ("3", "metadata"), ("3", "attachments"), ("4", "id"),
        ("notebook", "widgets"), ("notebook", "metadata"),
    ]  # fmt: skip
    assert {text for *_, text in found} == {TOKEN}


# -- anywhere

MIMES = ["text/plain", "text/html", "image/png", "image/svg+xml"]
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | words,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(words, inside, max_size=3),
    max_leaves=8,
)
texts = words | st.lists(words, max_size=3)
outputs = st.fixed_dictionaries(
    {"output_type": st.sampled_from(["stream", "display_data", "execute_result", "error", "unknown"])},
    optional={
        "name": words, "text": texts, "traceback": st.lists(words), "evalue": words, "metadata": plain,
        "data": st.dictionaries(st.sampled_from(MIMES), texts) | plain,
    },
)  # fmt: skip
cells = st.fixed_dictionaries(
    {"cell_type": st.sampled_from(["code", "markdown", "raw"]), "source": texts, "metadata": plain},
    optional={"outputs": st.lists(outputs, max_size=3) | plain, "attachments": plain, "id": words, "else": plain},
)
notebooks = st.fixed_dictionaries(
    {"cells": st.lists(cells | plain, max_size=4), "metadata": plain},
    optional={"nbformat": st.integers(), "else": plain},
)


def places(value, path=()):
    """Yield the path of every text and object of a document, where a token can be inserted."""
    if isinstance(value, str):
        yield path, "text"
    elif isinstance(value, dict):
        yield path, "key"
        for key, inside in value.items():
            yield from places(inside, (*path, key))
    elif isinstance(value, list):
        yield path, "item"
        for index, inside in enumerate(value):
            yield from places(inside, (*path, index))


def put(document, path, how, token):
    *above, last = ("root", *path)
    holder = whole = {"root": document}
    for step in above:
        holder = holder[step]
    if how == "text":
        holder[last] = f"{holder[last]} {token} {holder[last]}"
    elif how == "key":
        holder[last][token] = 1
    else:
        holder[last].append(token)
    return whole["root"]


@given(data=st.data(), token=st.sampled_from([TOKEN, "pmp_" + "0a1B2c3D4e5F6g7H8i9J"]))
def test_a_token_is_found_anywhere(tmp_path_factory, data, token):
    document = data.draw(notebooks)
    path, how = data.draw(st.sampled_from(list(places(document))))
    file = tmp_path_factory.mktemp("n") / "n.ipynb"
    file.write_text(json.dumps(put(document, path, how, token)), encoding="utf-8")
    assert token in {finding.text for finding in scan_file(file)}


@given(document=notebooks)
@settings(max_examples=50)
def test_a_clean_notebook_has_no_findings(tmp_path_factory, document):
    file = tmp_path_factory.mktemp("n") / "n.ipynb"
    file.write_text(json.dumps(document), encoding="utf-8")
    assert list(scan_file(file)) == []


# -- clean, large and invalid files


def test_pictures_and_plots_are_not_reported(leaks):
    noise = random.Random(3)
    png = base64.b64encode(noise.randbytes(200_000)).decode()
    path = " ".join(f"M{noise.random() * 100:.3f} 10.0.0.{number % 250}" for number in range(500))
    svg = f'<svg xmlns="http://www.w3.org/2000/svg"><path d="{path}"/><text>10.5</text></svg>'
    plot = {
        "data": [{"x": [noise.random() for _ in range(5000)], "type": "bar", "uid": "a1b2c3d4e5"}],
        "layout": {"a": {}},
    }
    html = f'<img src="data:image/png;base64,{png}"><div id="0d5a-4b" data-key="a1b2c3d4e5f6">&lt;b&gt;</div>'
    assert not leaks(code(outputs=[shown(**{"image/png": png, "image/svg+xml": svg, "text/html": html,
                                            "application/vnd.plotly.v1+json": plot})]))  # fmt: skip


def test_markup_and_colours_hide_nothing(leaks):
    coloured = "\x1b[32mpassword\x1b[39m\x1b[33m=\x1b[39m\x1b[33m'hunter2'\x1b[39m"
    found = leaks(
        code(outputs=[
            shown(**{"text/html": "<b>password=&#x27;hunter2&#x27;</b>"}),
            {"output_type": "error", "ename": "", "evalue": "", "traceback": [coloured]},
        ]),
        code("x", metadata={"connection": {"password": "hunter2", "user": "me"}}),
    )  # fmt: skip
    assert [(cell, where, text) for cell, where, _, text in found] == [
        ("1", "output 1 text/html", "hunter2"), ("1", "output 2 error", "hunter2"), ("2", "metadata", "hunter2")
    ]  # fmt: skip


@pytest.mark.parametrize(
    "written",
    [
        lambda token: f"<b>{token[:10]}</b>{token[10:]}",
        lambda token: "<span class='a b'>" + token.replace(".", "</span>.<span>").replace("_", "</span>_<span>"),
        lambda token: token.replace(".", ".<wbr/>").replace("_", "<wbr>_"),
        lambda token: token.replace(".", "\u200b.\u00ad").replace("_", "\u2060_"),
        lambda token: token.replace(".", "\\u002e").replace("_", "\\u005F"),
        lambda token: token.replace(".", "\\x2e").replace("_", "\\x5f"),
        lambda token: "https://x.example.io/?q=" + token.replace(".", "%2E").replace("_", "%5f"),
        lambda token: "&lt;p&gt;" + token.replace(".", "&#46;").replace("_", "&#x5f;"),
        lambda token: f"\x1b[38;5;241m{token[:10]}\x1b[K{token[10:]}",
        lambda token: f'<img src="data:text/plain;base64,{base64.b64encode(token.encode()).decode()}">',
        lambda token: base64.b64encode(token.encode()).decode().rstrip("="),
    ],
)
@pytest.mark.parametrize("token", [TOKEN, "pmp_0123456789abcdefABCDEF"])
def test_a_token_is_found_in_every_notation(leaks, written, token):
    assert leaks(code(outputs=[shown(**{"text/html": written(token)})]))


def test_a_password_in_base64(leaks):
    header = "Authorization: Basic " + base64.b64encode(b"me:hunter2hunter2").decode()
    assert leaks(code(outputs=[shown(**{"text/plain": header})]))[0][2] == "password in base64"
    assert not leaks(code(outputs=[shown(**{"text/plain": "Visual Basic programming, basic aW50cm9kdWN0aW9u"})]))


def test_a_line_with_an_exception(leaks):
    assert not leaks(code(f"token = '{TOKEN}'  # pipemagic: allow\nx = 1"))
    assert leaks(code(f"# pipemagic: allow\ntoken = '{TOKEN}'"))


def test_a_column_of_addresses_is_a_few_findings(leaks):
    assert (
        len(
            leaks(code(outputs=[shown(**{"text/plain": "\n".join(f"10.0.{n // 250}.{n % 250}" for n in range(5000))})]))
        )
        == 20
    )


def test_a_large_notebook_is_scanned_without_backtracking(tmp_path):
    noise = random.Random(1)
    table = "".join(f"<td>{noise.random()}</td><td>https://example.io/{n}</td>\n" for n in range(6_000))
    png = base64.b64encode(noise.randbytes(600_000)).decode()
    cell = code("x", [shown(**{"image/png": png, "text/html": table})])
    path = tmp_path / "n.ipynb"
    path.write_text(json.dumps({"cells": [cell, cell], "metadata": {}}))
    assert path.stat().st_size > 2_000_000
    started = time.process_time()
    assert list(scan_file(path)) == []
    assert time.process_time() - started < 8  # about 0.5 s; a pattern that backtracks takes minutes


@pytest.mark.parametrize("text", ["", "no JSON", "[]", "3", '{"cells": ', "[" * 100_000])
def test_a_file_that_is_not_a_notebook(tmp_path, text):
    path = tmp_path / "n.ipynb"
    path.write_text(text)
    with pytest.raises(UnreadableFile, match="is not a notebook"):
        list(scan_file(path))


def test_other_files_are_scanned_by_line(tmp_path):
    path = tmp_path / "q.sql"
    path.write_text(
        f"-- fine\r\nSELECT '{TOKEN}';\nSELECT 1 -- http://warehouse/ pipemagic: allow\n-- 10.0.0.7", encoding="utf-8"
    )
    assert [(finding.cell, finding.where, finding.text) for finding in scan_file(path)] == [
        ("2", "text", TOKEN),
        ("4", "text", "10.0.0.7"),
    ]
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UnreadableFile, match="not text"):
        list(scan_file(path))


def test_hidden_files_of_folders_are_skipped(tmp_path):
    for name in (
        "a.ipynb",
        "b/c.ipynb",
        "b/d.py",
        ".ipynb_checkpoints/a.ipynb",
        "node_modules/x.ipynb",
        ".git/x.ipynb",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    (tmp_path / "b" / "loop").symlink_to(tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in files_in(tmp_path)] == ["a.ipynb", "b/c.ipynb"]
    assert list(files_in(tmp_path / "b" / "d.py")) == [tmp_path / "b" / "d.py"]
