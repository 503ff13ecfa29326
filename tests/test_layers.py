"""The rules of who may import whom, as data."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pipemagic

ROOT = Path(pipemagic.__file__).parent

# Each layer may import what stands above it, never what stands below or beside it in its line.
LAYERS = [
    ["errors"],
    ["hrana", "sql", "svg", "geography", "leaks", "configuration", "terminals"],
    ["frames"],
    ["client", "service"],
    ["local", "explore"],
    ["session"],
    ["notebook", "cli"],
    ["panels"],
    ["__init__", "__main__"],
]

# What only some parts may import at all: the one place where each kind of work is done.
ONLY = {
    "httpx": {"client"},
    "requests": set(),
    "urllib3": set(),
    "urllib.request": {"client"},
    "http.client": {"client", "local", "service"},  # a lease is one open connection; sqld has an admin API
    "apsw": {"service"},
    "sqlite3": {"service"},
    "starlette": {"service"},
    "uvicorn": {"service"},
    "cryptography": {"service"},
    "jwt": {"service"},
    "IPython": {"notebook", "cli"},
    "anywidget": {"notebook"},
    "ipywidgets": {"notebook"},
    "traitlets": {"notebook"},
    "pandas": {"frames", "client", "explore", "session", "notebook", "cli"},
    "numpy": {"frames", "client", "explore", "session", "notebook"},
    "matplotlib": {"explore"},
    "keyring": {"session"},
    "jinja2": {"session"},
}

# These take long to import, so neither `import pipemagic` nor `%load_ext pipemagic` does it.
HEAVY = [
    "pandas", "numpy", "pyarrow", "polars", "matplotlib", "anywidget", "ipywidgets", "httpx", "uvicorn", "starlette",
    "apsw", "cryptography", "asyncio", "nbclient", "keyring", "jinja2",
]  # fmt: skip

RANK = {part: rank for rank, layer in enumerate(LAYERS) for part in layer}


def part_of(module: str) -> str:
    """Give the part (file or folder below pipemagic/) that a dotted module name belongs to."""
    return [*module.split("."), "__init__"][1]


def sources() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def name_of(path: Path) -> str:
    names = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(names[:-1] if names[-1] == "__init__" and len(names) > 2 else names)


def imports(path: Path, *, types: bool = True) -> Iterator[tuple[str, int, bool]]:
    """Give every module that a file imports: name, line, and whether at the top level of the module.

    Without ``types`` those that only a type checker sees are left out.
    """
    tree = ast.parse(path.read_text("utf-8"))
    if not types:
        tree = WithoutTypes().visit(tree)
    inside = {
        id(node)
        for scope in ast.walk(tree)
        if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(scope)
    }
    for node in ast.walk(tree):
        at_top = id(node) not in inside
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno, at_top
        elif isinstance(node, ast.ImportFrom):
            module = absolute(node, path)
            yield module, node.lineno, at_top
            for alias in node.names:
                if is_module(f"{module}.{alias.name}"):
                    yield f"{module}.{alias.name}", node.lineno, at_top


class WithoutTypes(ast.NodeTransformer):
    def visit_If(self, node: ast.If) -> ast.AST:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return ast.If(node.test, [ast.Pass()], [self.visit(other) for other in node.orelse])
        return self.generic_visit(node)


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


def test_every_part_has_a_layer():
    assert {part_of(name_of(path)) for path in sources()} <= set(RANK)


@pytest.mark.parametrize("path", sources(), ids=name_of)
def test_imports_only_go_up_the_list_of_layers(path):
    own = part_of(name_of(path))
    wrong = []
    for module, line, _ in imports(path):
        if module.split(".")[0] != "pipemagic":
            continue
        other = part_of(module)
        # The package itself holds nothing but the version and lazy names.
        if other not in (own, "__init__") and RANK[other] >= RANK[own]:
            wrong.append(f"{path}:{line} {own} imports {module}")
    assert not wrong


@pytest.mark.parametrize("path", sources(), ids=name_of)
def test_each_kind_of_work_has_one_place(path):
    own = part_of(name_of(path))
    wrong = []
    for module, line, _ in imports(path, types=False):
        for name, allowed in ONLY.items():
            if (module == name or module.startswith(name + ".")) and own not in allowed:
                wrong.append(f"{path}:{line} {own} imports {module}; only {sorted(allowed)} may")
    assert not wrong


@pytest.mark.parametrize("path", [path for path in sources() if part_of(name_of(path)) == "cli"], ids=name_of)
def test_the_command_line_imports_what_is_heavy_only_when_it_needs_it(path):
    eager = {module.split(".")[0] for module, _, at_top in imports(path) if at_top}
    assert not eager & {"IPython", *HEAVY}


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


def test_loading_the_extension_imports_nothing_heavy():
    shell = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "from traitlets.config import Config\n"
        "c = Config(); c.HistoryManager.enabled = False\n"
        "ip = InteractiveShell(config=c)\n"
    )
    bare = modules_after(shell)
    loaded = modules_after(shell + "ip.run_line_magic('load_ext', 'pipemagic')")
    assert "pipemagic" in loaded - bare
    assert not (loaded - bare) & set(HEAVY)


def test_the_first_tab_on_a_line_of_pipedb_imports_nothing_heavy():
    bare = modules_after("from pipemagic.notebook import load_ipython_extension")
    first = modules_after("import pipemagic.notebook.commands.helping, pipemagic.notebook.completion.tab") - bare
    assert "pipemagic.notebook.commands.exploring" in first
    assert not first & {*HEAVY, "msgspec", "pipemagic.session", "pipemagic.client", "pipemagic.client.database"}
