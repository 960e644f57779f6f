"""The pages of the API reference: one for each public name, written before each build.

They hold directives of autodoc and nothing else; what is read stands in the docstrings.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Final

from sphinx.pycode import ModuleAnalyzer

import daf_query
import daf_storage
from docs._site.examples import examples, setup_code
from docs._site.public_names import PublicName, error_names, public_names

_GROUPS: Final = {
    "function": "Functions",
    "class": "Classes",
    "exception": "Errors and warnings",
    "data": "Types and constants",
    "module": "Modules",
}

_PACKAGES: Final = {
    "daf_query": "SQL, slices, profiles and whatever is asked of data sets.",
    "daf_storage": "Data sets on disk and in memory: reading, writing and converting them.",
}


def write(folder: Path) -> None:
    """Write the pages and their index, those that differ; delete those of names that are gone."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {f"{name.full_name}.rst": _page(name) for name in public_names()}
    pages |= {f"{package}.rst": _package_index(package) for package in _PACKAGES}
    pages["index.rst"] = _index()
    for path in folder.glob("*.rst"):
        if path.name not in pages:
            path.unlink()
    for file_name, content in pages.items():
        path = folder / file_name
        if not path.exists() or path.read_text() != content:
            path.write_text(content)


def _index() -> str:
    lines = [
        *_title("Python API"),
        "Every public name has a page: its signature, its parameters, what it returns, its errors",
        "and an example. For an overview by subject, see",
        ":doc:`the Python reference </reference/python>`.",
        "",
        ".. toctree::",
        "   :maxdepth: 2",
        "",
        *(f"   {package}" for package in _PACKAGES),
    ]
    return "\n".join([*lines, ""])


def _package_index(package: str) -> str:
    lines = [*_title(package), _PACKAGES[package], ""]
    for category, heading in _GROUPS.items():
        names = [
            name for name in public_names() if name.package == package and name.category == category
        ]
        if names:
            lines += [".. toctree::", f"   :caption: {heading}", "   :maxdepth: 1", ""]
            lines += [f"   {name.name} <{name.full_name}>" for name in names]
            lines.append("")
    return "\n".join(lines)


def _page(name: PublicName) -> str:
    lines = _title(name.full_name)
    if name.category == "module":
        return "\n".join([*lines, *_module(name)])
    lines += [f".. py:currentmodule:: {name.package}", ""]
    if name.category == "data":
        return "\n".join([*lines, *_data(name)])
    lines.append(f".. auto{name.category}:: {name.name}")
    if any(base is not object for base in getattr(name.value, "__bases__", ())):
        lines.append("   :show-inheritance:")
    if any(place in examples() for place in (name.name, *_places(name))):
        lines[2:2] = [*_setup(), ""]
    for member in name.members:
        lines += ["", f"   .. auto{_member_category(name, member)}:: {name.name}.{member}"]
    return "\n".join([*lines, ""])


def _places(name: PublicName) -> list[str]:
    return [f"{name.name}.{member}" for member in name.members]


def _setup() -> list[str]:
    """Return what the examples of a page start with, folded up."""
    code = [f"      {line}" for line in setup_code().rstrip().split("\n")]
    title = "The examples of this page start with a small data set, ``daf``, and a session, ``db``"
    return [f".. dropdown:: {title}", "", "   .. code-block:: pycon", "", *code]


def _member_category(name: PublicName, member: str) -> str:
    value = inspect.getattr_static(name.value, member)
    if isinstance(value, property):
        return "property"
    is_method = callable(value) or isinstance(value, (classmethod, staticmethod))
    return "method" if is_method else "attribute"


def _module(name: PublicName) -> list[str]:
    lines = [f".. automodule:: {name.full_name}", "   :no-members:", ""]
    if name.name == "errors":
        for error in error_names():
            lines += [f".. autoexception:: {error}", "   :show-inheritance:", ""]
        lines += [".. autoclass:: Remedy", ""]
    else:
        lines.insert(1, "   :members:")
        lines.remove("   :no-members:")
    return lines


def _data(name: PublicName) -> list[str]:
    """Return the text of a type or constant, whose docstring stands below its definition."""
    lines = [f".. py:data:: {name.name}"]
    value = str(name.value).replace("typing.", "")
    if not value.startswith("<"):
        lines.append(f"   :value: {value}")
    return [*lines, "", *(f"   {line}" for line in docstring_of_data(name)), ""]


def docstring_of_data(name: PublicName) -> list[str]:
    """Return the lines that stand below the definition of a type or constant."""
    package = {"daf_query": daf_query, "daf_storage": daf_storage}[name.package]
    definition = re.compile(rf"^{name.name}\b[^.\n]* = ", re.MULTILINE)
    for path in sorted(Path(package.__path__[0]).rglob("*.py")):
        if definition.search(path.read_text()):
            docstrings = ModuleAnalyzer.for_file(path, path.stem).find_attr_docs()
            if lines := docstrings.get(("", name.name)):
                return list(lines)
    return []


def _title(text: str, underline: str = "=") -> list[str]:
    return [text, underline * len(text), ""]
