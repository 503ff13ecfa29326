"""Files that a notebook needs beside it: data that its cells read, and modules that they import.

A teacher's folder also contains what students must not get: solutions, rosters, hand-outs, points. So a file goes with
a notebook only if a cell names it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePath

Files = Mapping[str, Path]
"""Files by their paths relative to the notebook, with slashes."""

_LONGEST = 255
"""Characters of a path that is looked for; longer texts are no paths."""

_QUOTED = re.compile(r"([\"'])(.+?)\1")
_WORD = re.compile(r"[^\s\"'`()\[\]{},;=<>|]+")
_LINK = re.compile(r"\]\(<?([^)>\s]+)|\bsrc=[\"']([^\"']+)")
_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import\b|import[ \t]+(.+))", re.MULTILINE)
_COMMENT = re.compile(r"(?:^|(?<=\s))#\s.*$", re.MULTILINE)
_FIELD = re.compile(r"\{[^}]*\}")
_WRITTEN = re.compile(
    r"--to(?:-\w+)?[ \t=]+\S+|\.(?:to_|write_|save|dump)\w*\([^)]*\)|\bopen\([^)]*,\s*[^)]*[\"'][wax]b?\+?[\"'][^)]*\)"
)
"""Options and calls that write a file."""
_WILD = re.compile(r"[*?\[]")


def named_files(texts: Iterable[tuple[str, str]], folder: Path, *, without: Path) -> dict[str, Path]:
    """Return the files of a folder that the cells of a notebook name; ``texts`` are their types and sources.

    Code names a file by its path, in quotation marks or as a word, by a pattern such as ``data/*.csv``, whose
    fields ``{month}`` match anything, by a folder and a name, such as ``DATA / "2013.csv"``, and by importing it. A
    pattern that begins with a wild card names nothing, nor does a comment. Markdown names files by links. These are
    left out: files that a cell writes, hidden files, notebooks, those in ``without``, and, if others may read the
    folder's notebooks, files that only their owner may read.
    """
    found: dict[str, Path] = {}
    waiting = list(texts)
    readable = any(not _is_private(path) for path in folder.glob("*.ipynb"))
    while waiting:
        kind, text = waiting.pop()
        for path in _paths(kind, text, folder):
            name = path.relative_to(folder).as_posix()
            if name in found or not _may_go(path, folder, without) or (readable and _is_private(path)):
                continue
            found[name] = path
            if path.suffix == ".py":
                waiting.append(("code", path.read_text("utf-8", "replace")))
    return dict(sorted(found.items()))


def given_files(paths: Sequence[Path], folder: Path) -> dict[str, Path]:
    """Return files that a teacher has named, and those in folders, without hidden ones and notebooks in these.

    Their paths are relative to ``folder``; those elsewhere are beside the notebook.
    """
    found: dict[str, Path] = {}
    for given in (path.absolute() for path in paths):
        base = folder.absolute() if given.is_relative_to(folder.absolute()) else given.parent
        files = [path for path in _below(given) if _may_go(path, given, None)] if given.is_dir() else [given]
        found.update((path.relative_to(base).as_posix(), path) for path in files)
    return dict(sorted(found.items()))


def left_files(files: Files, folder: Path, *, without: Path) -> list[str]:
    """Return the names of the files and folders of a folder of which nothing goes with the notebook."""
    taken = {PurePath(name).parts[0] for name in files}
    entries = [path for path in sorted(folder.iterdir()) if path.name not in taken and path.resolve() != without]
    return [
        f"{path.name}/" if path.is_dir() else path.name for path in entries if _may_go(path, folder, None)
    ]  # fmt: skip


def copy_files(files: Files, folder: Path) -> None:
    """Copy files to a folder, in which they replace others."""
    for name, path in files.items():
        target = folder / name
        if target.exists() and target.samefile(path):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)  # it may be a link, or may not be written
        shutil.copyfile(path, target)


def _paths(kind: str, text: str, folder: Path) -> Iterator[Path]:
    """Yield the files that a cell names."""
    if kind == "markdown":
        names, quoted = {link or source for link, source in _LINK.findall(text)}, []
    else:
        text = _WRITTEN.sub("", _COMMENT.sub("", text))
        quoted = [match[2] for match in _QUOTED.finditer(text)]
        names = {*quoted, *_WORD.findall(text), *_modules(text)}
    folders = [name for name in quoted if _is_relative(name) and _exists(folder / name)]
    names |= {f"{parent.rstrip('/')}/{name}" for parent in folders for name in quoted if name != parent}
    for name in filter(_is_relative, names):
        pattern = _FIELD.sub("*", name)
        with suppress(OSError, ValueError, NotImplementedError):
            if not _WILD.search(pattern):
                yield from filter(Path.is_file, [folder / PurePath(name)])
            elif not _WILD.match(PurePath(pattern).parts[0]):
                yield from filter(Path.is_file, folder.glob(pattern))


def _modules(text: str) -> Iterator[str]:
    """Yield the paths of modules that code imports, and patterns of those in packages."""
    for module, several in _IMPORT.findall(text):
        for name in [module] if module else re.split(r"[ \t]*,[ \t]*", several):
            path = name.split()[0].replace(".", "/") if name.split() else ""
            if path:
                yield from (f"{path}.py", f"{path.partition('/')[0]}/**/*.py")


def _is_relative(name: str) -> bool:
    path = PurePath(name)
    return bool(path.parts) and len(name) <= _LONGEST and not path.is_absolute() and ".." not in path.parts


def _exists(path: Path) -> bool:
    with suppress(OSError, ValueError):
        return path.is_dir()
    return False


def _may_go(path: Path, folder: Path, without: Path | None) -> bool:
    parts = path.relative_to(folder).parts
    hidden = any(part.startswith(".") or part == "__pycache__" for part in parts)
    return not (hidden or path.suffix == ".ipynb" or (without and path.resolve().is_relative_to(without)))


def _is_private(path: Path) -> bool:
    """Return True if only its owner may read a file, or a folder."""
    return not path.stat().st_mode & 0o077


def _below(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        yield from (Path(parent, name) for name in names)
