"""Show the how-to and explanation pages of the documentation, which the wheel carries as Markdown."""

from __future__ import annotations

import posixpath
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

PARTS = ("how-to", "explanation")

ABOUT = {
    "Connections": "how-to/hosted-database", "Transactions": "how-to/transactions", "Status": "how-to/inspect-requests",
    "Exploring": "how-to/explore", "Data": "how-to/load-data", "Groups and databases": "explanation/replication",
    "status": "how-to/transactions", "panel": "how-to/panels", "diagram": "how-to/plot", "plot": "how-to/plot",
    "snippets": "how-to/parameters", "create-token": "how-to/tokens", "invalidate-tokens": "how-to/tokens",
    "sql": "how-to/results", "parameters": "how-to/parameters", "transactions": "how-to/transactions",
    "results": "how-to/results", "explore": "how-to/explore", "config": "how-to/saved-connections",
    "profiles": "how-to/saved-connections", "tokens": "how-to/tokens", "limits": "explanation/limits",
    "retry": "explanation/unknown-outcome", "keep-alive": "how-to/transactions",
    "completion": "how-to/completion",
}  # fmt: skip
"""The page to read after the help on a subcommand or topic, by its name or by the title of its group."""

WORDS = {
    "csv": "how-to/load-data", "hosted": "how-to/hosted-database", "error": "how-to/errors",
}  # fmt: skip
"""Pages by words that name no subcommand, topic or page."""

_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_REFERENCES = {
    "reference/sql": "sql", "reference/commands": "", "reference/settings": "config",
}  # fmt: skip
_CODE = re.compile(r"^(```+|~~~+)(\{?)([^\n}]*)\}?[^\n]*\n(.*?)^\1[ ]*$", re.MULTILINE | re.DOTALL)
_NOT_SHOWN = re.compile(r"\A---\n.*?^---\n|^ *<!--.*?-->\n*|^:::[^\n]*\n|^\(\S+\)=\n", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, repr=False)
class DocumentationPage:
    """A page: Markdown in a notebook, the same as plain text in a terminal."""

    name: str
    path: Path

    @property
    def title(self) -> str:
        """The heading of the page."""
        match = re.search(r"^# (.+)", self._source, re.MULTILINE)
        return match[1] if match else self.name

    def __repr__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        """The Markdown of the page, without comments and directives; its links name the pages in `%pipedb help`."""
        parts, end, source = [], 0, self._source
        for fence in _CODE.finditer(source):
            parts += [self._prose(source[end : fence.start()]), _fence(fence)]
            end = fence.end()
        return re.sub(r"\n{3,}", "\n\n", "".join([*parts, self._prose(source[end:])])).strip()

    @property
    def _source(self) -> str:
        return self.path.read_text("utf-8")

    def _prose(self, text: str) -> str:
        return _LINK.sub(self._link, _NOT_SHOWN.sub("", text))

    def _link(self, link: re.Match[str]) -> str:
        picture, words, target = link.groups()
        if "://" in target:
            return link[0]
        path = posixpath.join(posixpath.dirname(self.name), target.partition("#")[0])
        page = posixpath.normpath(path).removesuffix(".md")
        references = {**{f"reference/{topic}": topic for topic in plugins.named("pages")}, **_REFERENCES}
        if not picture and page != self.name and (page in pages() or page in references):
            return f"{words} (`%pipedb help {references.get(page, page)}".rstrip() + "`)"
        return words


def _fence(fence: re.Match[str]) -> str:
    """Return a fence of code; '' for a directive, except a cell, without its options."""
    marks, directive, language, body = fence.groups()
    if not directive:
        return fence[0]
    code = re.sub(r"\A(?:---\n.*?^---\n|(?::\S+:[^\n]*\n)+)", "", body, flags=re.MULTILINE | re.DOTALL)
    return f"{marks}ipython\n{code}{marks}" if language == "code-cell" else ""


def _folder() -> Path:
    package = Path(pipemagic.__file__).parent
    return next((folder for folder in (package / "pages", package.parent / "docs") if folder.is_dir()), package)


@cache
def pages() -> dict[str, DocumentationPage]:
    """Return the pages by name, such as ``how-to/load-data``: those of the wheel, or of docs/ in a checkout."""
    paths = [path for part in PARTS for path in sorted((_folder() / part).glob("*.md")) if path.stem != "index"]
    entries = (DocumentationPage(f"{path.parent.name}/{path.stem}", path) for path in paths)
    return {page.name: page for page in entries}


def page_words() -> list[str]:
    """Return the short names of the pages, and other words that lead to one."""
    return [*(page.path.stem for page in pages().values()), *WORDS, *plugins.named("pages")]


def page_named(name: str) -> DocumentationPage | None:
    """Return the page of that name, with or without its folder, or about that word; None if there is none."""
    name = {**plugins.named("pages"), **WORDS}.get(name, name)
    return next((page for page in pages().values() if name in (page.name, page.path.stem)), None)


def error_texts() -> dict[str, dict[str, dict[str, Any]]]:
    """Return what error_codes.toml has on error codes, by group and code: meaning, causes and advice."""
    path = _folder() / "reference" / "error_codes.toml"
    return tomllib.loads(path.read_text("utf-8")) if path.exists() else {}


def meaning_of(code: str, texts: Mapping[str, Any]) -> str:
    """Return the meaning of an error code: that of its texts, or the docstring of its exception class."""
    if "meaning" in texts:
        return str(texts["meaning"])
    kinds = [PipemagicError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    docs = [kind.__doc__ or "" for kind in kinds if code in (vars(kind).get("code"), vars(kind).get("unchanged"))]
    return re.sub(r"`+([^`]+)`+", r"`\1`", " ".join(docs[0].split("\n\n")[0].split())) if docs else ""


def help_on_code(name: str) -> str:
    """Return the meaning of an error code and what to do; '' for other names."""
    code = name.upper()
    for group in error_texts().values():
        if texts := group.get(code):
            text = " ".join(filter(None, (meaning_of(code, texts), texts["advice"])))
            return f"{code}: {text}\n\nMore: %pipedb help how-to/errors"
    return ""


def page_about(*names: str) -> str:
    """Return the line that names the page on the first of these names that has one; '' if none has."""
    about = {**plugins.named("pages"), **ABOUT}
    page = next((about[name] for name in names if about.get(name) in pages()), "")
    return f"More: %pipedb help {page}" if page else ""
