"""Show the pages of the documentation, a folder for each kind of reader, which the wheel contains as Markdown."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pipemagic
from pipemagic import plugins
from pipemagic.errors import PipemagicError

OTHERS = {"reference", "tutorial"}
"""Folders of pages that are made of code and notebooks."""

ABOUT = {
    "Connections": "analysts/connect", "Transactions": "analysts/transactions", "Status": "analysts/errors",
    "Exploring": "analysts/explore", "Data": "analysts/load", "Groups and databases": "operators/cluster",
    "status": "analysts/transactions", "panel": "analysts/explore", "diagram": "analysts/results",
    "plot": "analysts/results", "snippets": "analysts/parameters", "create-token": "operators/tokens",
    "invalidate-tokens": "operators/tokens", "create-api-token": "operators/tokens",
    "api-tokens": "operators/tokens", "revoke-api-token": "operators/tokens",
    "sql": "analysts/results", "parameters": "analysts/parameters", "frames": "analysts/libraries",
    "transactions": "analysts/transactions", "results": "analysts/results", "explore": "analysts/explore",
    "config": "analysts/connect", "profiles": "analysts/connect", "tokens": "operators/tokens",
    "limits": "analysts/limits", "retry": "analysts/transactions", "completion": "analysts/errors",
    "stop": "analysts/start", "databases": "analysts/start", "create-database": "analysts/start",
    "delete-database": "analysts/start", "usage": "analysts/start", "export-database": "analysts/scripts",
    "organization": "analysts/connect", "overages": "analysts/connect", "protect-database": "analysts/connect",
    "unprotect-database": "analysts/connect", "unarchive-group": "analysts/connect",
    "suspend-database": "operators/operate", "resume-database": "operators/operate",
}  # fmt: skip
"""The page to read after the help on a command or topic, by its name or by the title of its group."""

WORDS = {
    "csv": "analysts/load", "hosted": "analysts/connect", "error": "analysts/errors",
    "dbapi": "analysts/libraries", "pandas": "analysts/libraries", "sqlalchemy": "analysts/libraries",
}  # fmt: skip
"""Pages by words that are not the name of a command, topic or page."""


@dataclass(frozen=True, repr=False)
class DocumentationPage:
    """A page of Markdown, which a notebook renders and a terminal shows as text."""

    name: str
    path: Path

    @property
    def title(self) -> str:
        """The heading of the page."""
        match = re.search(r"^# (.+)", self._repr_markdown_(), re.MULTILINE)
        return match[1] if match else self.name

    def __repr__(self) -> str:
        return self._repr_markdown_()

    def _repr_markdown_(self) -> str:
        text = self.path.read_text("utf-8")
        return re.sub(
            r"^ *<!--.*?-->\n", "", text, flags=re.DOTALL | re.MULTILINE
        )  # they are for the tests of the page


def _folder() -> Path:
    package = Path(pipemagic.__file__).parent
    return next((folder for folder in (package / "pages", package.parent / "docs") if folder.is_dir()), package)


@cache
def pages() -> dict[str, DocumentationPage]:
    """Return the pages by name, such as ``analysts/load``, from the wheel or from docs/ in a checkout."""
    paths = sorted(path for path in _folder().glob("*/*.md") if path.parent.name not in OTHERS)
    entries = (DocumentationPage(f"{path.parent.name}/{path.stem}", path) for path in paths)
    return {page.name: page for page in entries}


def page_words() -> list[str]:
    """Return the short names of the pages, and other words that lead to one."""
    return [*(page.path.stem for page in pages().values()), *WORDS, *plugins.named("pages")]


def page_named(name: str) -> DocumentationPage | None:
    """Return the page with that name, with or without its folder, or the page on that word; None if none has it."""
    name = {**plugins.named("pages"), **WORDS}.get(name, name)
    return next((page for page in pages().values() if name in (page.name, page.path.stem)), None)


def error_texts() -> dict[str, dict[str, dict[str, Any]]]:
    """Return the content of error_codes.toml by group and code: meaning, causes and advice."""
    path = _folder() / "reference" / "error_codes.toml"
    return tomllib.loads(path.read_text("utf-8")) if path.exists() else {}


def meaning_of(code: str, texts: Mapping[str, Any]) -> str:
    """Return the meaning of an error code from its texts, or from the docstring of its exception class."""
    if "meaning" in texts:
        return str(texts["meaning"])
    kinds = [PipemagicError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    docs = [kind.__doc__ or "" for kind in kinds if code in (vars(kind).get("code"), vars(kind).get("unchanged"))]
    return re.sub(r"`+([^`]+)`+", r"`\1`", " ".join(docs[0].split("\n\n")[0].split())) if docs else ""


def help_on_code(name: str) -> str:
    """Return the meaning of an error code and the advice; '' for other names."""
    code = name.upper()
    for group in error_texts().values():
        if texts := group.get(code):
            text = " ".join(filter(None, (meaning_of(code, texts), texts["advice"])))
            return f"{code}: {text}\n\nMore: %pipedb help analysts/errors"
    return ""


def page_about(*names: str) -> str:
    """Return the line that refers to the page on the first of these names; '' if none has a page."""
    about = {**plugins.named("pages"), **ABOUT}
    page = next((about[name] for name in names if about.get(name) in pages()), "")
    return f"More: %pipedb help {page}" if page else ""
