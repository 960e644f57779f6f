"""Tests of the floor plan: how many modules a package has at its top, and what others import of it.

Which package may import which is a contract of import-linter in ``pyproject.toml``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.house.sizes import MOST_LINES, size_of, sizes_of

ROOT = Path(__file__).parents[2]
PACKAGES = ("daf_query", "daf_storage")
MOST_MODULES = 8
EVERYWHERE = ("daf_storage._lazy", "daf_storage.errors", "daf_storage.settings")


def _modules() -> Iterator[tuple[str, Path]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts).removesuffix(".__init__"), path


@cache
def _imported(path: Path) -> tuple[str, ...]:
    """Return the full names of what a module, or its stub, imports from the two packages."""
    sources = [each for each in (path, path.with_suffix(".pyi")) if each.exists()]
    return tuple(
        f"{node.module}.{alias.name}"
        for source in sources
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGES)
        for alias in node.names
    )


def _package(module: str) -> str:
    return ".".join(module.split(".")[:2])


@pytest.mark.parametrize("package", PACKAGES)
def test_few_modules_are_directly_under_a_package(package: str) -> None:
    """What else there is, is in a subpackage."""
    assert len(list((ROOT / package).glob("*.py"))) <= MOST_MODULES


def test_packages_are_imported_by_their_public_names() -> None:
    """No module imports a private module of another package, or a private name of any."""
    found = [
        f"{module} imports {name}"
        for module, path in _modules()
        for name in _imported(path)
        if _package(name) != _package(module)
        and any(part[0] == "_" for part in name.split(".")[2:])
    ]
    assert found == []


def test_modules_that_are_no_doors_are_private() -> None:
    """Their names start with an underscore."""
    public = {
        module
        for module, path in _modules()
        if path.name != "__init__.py" and not path.name.startswith("_")
    }
    assert public == {
        "daf_query.demo",
        "daf_storage.errors",
        "daf_storage.examples",
        "daf_storage.settings",
        "daf_storage.spi",
        "daf_storage.testing",
    }


def test_every_package_says_what_it_is() -> None:
    """Its docstring has its nouns, and what it must not know."""
    for package in PACKAGES:
        for door in sorted((ROOT / package).glob("*/__init__.py")):
            text = ast.get_docstring(ast.parse(door.read_text())) or ""
            assert "**Nouns.**" in text, door
            assert "Must not know" in text, door


def _arrows() -> dict[str, set[str]]:
    """Return which packages each one imports, but for the errors and settings, which all use."""
    packages = {_package(module) for module, _ in _modules()} - {*PACKAGES, *EVERYWHERE}
    found: dict[str, set[str]] = {package: set() for package in packages}
    for module, path in _modules():
        package = _package(module)
        if package in packages:
            found[package] |= {_package(name) for name in _imported(path)} & packages - {package}
    return found


def _reached(arrows: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return which packages each one imports, itself or through others."""
    found: dict[str, set[str]] = {}

    def of(package: str) -> set[str]:
        if package not in found:
            found[package] = arrows[package].union(*(of(other) for other in arrows[package]))
        return found[package]

    return {package: of(package) for package in arrows}


def _drawing() -> list[str]:
    """Return the lines of the picture: the arrows that do not follow from others."""
    arrows = _arrows()
    reached = _reached(arrows)
    return [
        f"    {start} --> {end}"
        for start in sorted(arrows)
        for end in sorted(arrows[start])
        if not any(end in reached[package] for package in arrows[start] - {end})
    ]


def test_the_picture_of_the_packages_is_that_of_the_imports() -> None:
    """The document has each arrow that does not follow from others, and no other one."""
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
    arrows = [line for line in page.splitlines() if " --> " in line]
    assert arrows == _drawing(), "\n".join(_drawing())


def test_code_lines_are_those_without_documents() -> None:
    """Docstrings, comments and blank lines do not count; each line of a bracket does."""
    source = '"""A module."""\n\n# A comment.\ndef f() -> int:\n    """Return 1."""\n    return (\n        1\n    )\n'
    assert (size_of(source)["files"], size_of(source)["lines"]) == (1, 4)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_is_no_larger_than_it_may_be(package: str) -> None:
    """And what it may have is close to what it has: who deletes code lowers it."""
    lines = sizes_of(package)[package]["lines"]
    assert MOST_LINES[package] - 1_000 < lines <= MOST_LINES[package]
