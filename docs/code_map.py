"""Writes docs/reference/code-map.md: the layers, what each imports, and what each module is for.

Layers come from ``pyproject.toml``, imports from the code as `import-linter` reads it, sentences
from the first line of docstrings. Run by ``make docs``; a test fails if the page is not what this
script would write.
"""

import ast
import tomllib
from pathlib import Path

import grimp

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "fedsparse"
PAGE = ROOT / "docs" / "reference" / "code-map.md"
OPENING = """# Map of the code

Written by `docs/code_map.py` from the code itself: its layers, what they import, and the first
line of every module. [How it is built](../design.md) tells the ideas behind them.

## Layers

Imports go down this list only; `make lint` checks it. What is imported for types alone does not
count.

| layer | holds | imports |
| --- | --- | --- |"""


def page() -> str:
    """The whole page."""
    layers = [layer.split(" | ") for layer in _contract()["layers"]]
    names = [name for layer in layers for name in layer]
    graph = grimp.build_graph("fedsparse", exclude_type_checking_imports=True, cache_dir=None)
    rows = [_row(name, names, graph) for name in names]
    packages = [name for name in names if (SOURCE / name).is_dir()]
    return "\n".join([OPENING, *rows, "", *(_section(name) for name in packages)])


def _contract() -> dict:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    return next(contract for contract in contracts if contract["type"] == "layers")


def _row(name: str, names: list[str], graph: grimp.ImportGraph) -> str:
    """A layer, or a module that is one, with the layers that it imports."""
    imported = [
        f"`{other}`"
        for other in names
        if other != name
        and graph.direct_import_exists(
            importer=f"fedsparse.{name}", imported=f"fedsparse.{other}", as_packages=True
        )
    ]
    is_package = (SOURCE / name).is_dir()
    path = SOURCE / name / "__init__.py" if is_package else SOURCE / f"{name}.py"
    shown = f"[`{name}/`](#{name})" if is_package else f"`{name}.py`"
    return f"| {shown} | {_first_line(path)} | {', '.join(imported) or '–'} |"


def _section(name: str) -> str:
    """All modules of a package, those of packages in it below their own line."""
    folder = SOURCE / name
    files = sorted(folder.rglob("*.py"), key=lambda file: _shown(file, folder))
    rows = [
        f"| `{_shown(file, folder)}` | {_first_line(file)} |"
        for file in files
        if file != folder / "__init__.py"
    ]
    return "\n".join([f"## {name}\n", "| module | what it is for |", "| --- | --- |", *rows, ""])


def _shown(file: Path, folder: Path) -> str:
    """The path in a layer's folder; a package by its folder."""
    path = file.relative_to(folder).as_posix()
    return path.removesuffix("__init__.py")


def _first_line(file: Path) -> str:
    text = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
    return text.partition("\n")[0].replace("``", "`").replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
