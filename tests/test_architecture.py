"""Who may import whom, found by reading the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

APP = Path(__file__).parent.parent / "app"
FILES = sorted(path for path in APP.rglob("*.py"))
NAMES = [path.relative_to(APP).with_suffix("").as_posix() for path in FILES]
MODULES = pytest.mark.parametrize("path", FILES, ids=NAMES)

FLASK = {
    "cli",
    "cors",
    "event_response",
    "factory",
    "identity",
    "payload",
    "reply",
    "routes",
    "terminal",
    "testing",
}
REQUESTS = {"addresses", "head", "transport", "upstream"}


def name_of(path: Path) -> str:
    return path.relative_to(APP).with_suffix("").as_posix()


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Give level and dotted name of each import, in functions and type checks too; level 0 is absolute."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield 0, alias.name
        elif isinstance(node, ast.ImportFrom):
            if node.module is None or (node.level and not _is_module(path, node.level, node.module)):
                for alias in node.names:
                    yield node.level, ".".join(filter(None, (node.module, alias.name)))
            else:
                yield node.level, node.module


def _is_module(path: Path, level: int, name: str) -> bool:
    base = path.parents[level - 1].joinpath(*name.split("."))
    return base.with_suffix(".py").exists()


def foreign(path: Path) -> set[str]:
    """Give the top-level packages that are not ours."""
    return {name.partition(".")[0] for level, name in imports(path) if level == 0}


def ours(path: Path) -> set[str]:
    """Give our modules that *path* imports, by their path below ``app``."""
    found = set()
    for level, name in imports(path):
        if level:
            base = path.parents[level - 1].joinpath(*name.split("."))
            while not (base.with_suffix(".py").exists() or base.is_dir()):
                base = base.parent  # the last part is a name in that module
            found.add("" if base == APP else base.relative_to(APP).as_posix())
    return found


def _is_docstring_only(tree: ast.Module) -> bool:
    return len(tree.body) == 1 and ast.get_docstring(tree) is not None


def test_there_is_something_to_look_at() -> None:
    """The walk finds the modules it is about."""
    assert {"__init__", "errors", "wire", "sse", "relay", "upstream", "stages/__init__"} <= set(NAMES)
    assert {"errors", "settings", "sse", "transport", "wire"} <= ours(APP / "upstream.py")
    assert {"requests", "urllib3"} <= foreign(APP / "upstream.py")


@MODULES
def test_imports_of_ours_are_relative(path: Path) -> None:
    """The package is installed under another name than its directory's."""
    assert set() == foreign(path) & {"app", "flask_sluice", "tests"}


@MODULES
def test_gevent_is_never_imported(path: Path) -> None:
    """Whether the process is patched is its owner's choice; nor is the name imported by function."""
    assert set() == foreign(path) & {"gevent", "greenlet"}
    calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    named = [
        argument.value
        for call in calls
        if ast.unparse(call.func).endswith(("import_module", "__import__"))
        for argument in call.args
        if isinstance(argument, ast.Constant)
    ]
    assert [] == [name for name in named if str(name).startswith(("gevent", "greenlet"))]


@MODULES
def test_every_module_says_what_it_offers(path: Path) -> None:
    """``__all__`` is there, and what it names is defined; ``__main__`` offers nothing."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if path.name == "__main__.py" or _is_docstring_only(tree):
        return
    values = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]
    ]
    assert 1 == len(values), f"{name_of(path)} has no __all__"
    names = ast.literal_eval(values[0])
    assert len(set(names)) == len(names)


@MODULES
def test_annotations_are_postponed_and_docstrings_there(path: Path) -> None:
    """Each module begins with what it is for."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), f"{name_of(path)} has no docstring"
    futures = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    assert futures or path.name == "__main__.py" or _is_docstring_only(tree)


@MODULES
def test_only_the_upstream_client_knows_requests(path: Path) -> None:
    """Foreign exceptions are translated in one place."""
    if name_of(path) not in REQUESTS:
        assert set() == foreign(path) & {"requests", "urllib3"}


@MODULES
def test_flask_is_known_at_the_edge_only(path: Path) -> None:
    """What relays, checks and transforms works without a web framework."""
    is_edge = name_of(path) in FLASK or name_of(path).startswith(("commands/", "demo/", "views/"))
    if not is_edge:
        assert set() == foreign(path) & {"flask", "werkzeug", "click"}


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("errors", set()),
        ("sse", set()),
        ("wire", set()),
        ("mailbox", set()),
        ("gaps", set()),
        ("faults", set()),
        ("trace", set()),
        ("record", {"faults", "gaps", "trace"}),
        ("shape", set()),
        ("settings", {"errors", "url"}),
        ("contract", {"errors", "wire"}),
        ("pipeline", {"contract", "errors", "settings", "wire"}),
        ("chat", {"errors", "pipeline", "settings", "shape", "wire"}),
        ("chunks", {"errors", "pipeline", "wire"}),
        ("answer", {"pipeline"}),
        ("gate", {"access", "access/address", "errors", "settings"}),
        ("models", {"errors", "upstream"}),
    ],
)  # fmt: skip
def test_the_core_imports_only_what_lies_below_it(name: str, allowed: set[str]) -> None:
    """The layers are a list, so that a new edge is a decision."""
    assert allowed >= ours(APP / f"{name}.py")


@pytest.mark.parametrize("path", sorted((APP / "stages").glob("*.py")), ids=lambda path: path.stem)
def test_stages_never_import_each_other(path: Path) -> None:
    """A stage is one file that knows the seam and the text modules, and no sibling."""
    if path.stem == "__init__":
        return
    found = ours(path)
    assert set() == {name for name in found if name.split("/")[0] == "stages"}
    assert set() == found & {"relay", "upstream", "transport", "routes", "factory", "gateway", "library", "cli"}


def test_the_relay_knows_neither_flask_nor_requests() -> None:
    """Not directly, and not by what it imports either, but for the upstream seam."""
    seen, todo = set(), {"relay"}
    while todo:
        name = todo.pop()
        seen.add(name)
        path = APP / f"{name}.py"
        if not path.exists():
            path = APP / name / "__init__.py"
        assert set() == foreign(path) & {"flask", "werkzeug"}, name
        todo |= ours(path) - seen - REQUESTS - {""}
    assert "pipeline" in seen
    assert set() == seen & {"routes", "factory", "gateway", "cli", "stores", "stages"}


def test_nothing_but_the_edge_imports_the_edge() -> None:
    """Nobody below asks for the views or the factory."""
    edge = {"cli", "factory", "routes"}
    above = {"__init__", "__main__", "cli", "factory", "testing"}
    for path in FILES:
        if name_of(path) not in above and not name_of(path).startswith(("commands/", "demo/")):
            assert set() == ours(path) & edge, name_of(path)
