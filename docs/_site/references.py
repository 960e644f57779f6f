"""References to names by what is imported, wherever it is defined.

A signature names classes by the module that defines them, which is private; their pages go by the
name that users import.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from docs._site.foreign_names import PROJECTS
from docs._site.public_names import error_names, public_names


def resolve(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.Element
) -> nodes.Node | None:
    """Return a link to the page of a public name, or to that of another project."""
    if node.get("refdomain") != "py":
        return None
    target = node.get("reftarget", "").split("[")[0]
    if full_name := _public(target):
        return env.domains["py"].resolve_xref(
            env, node["refdoc"], app.builder, "obj", full_name, node, content
        )
    if location := _foreign(target):
        link = nodes.reference("", "", content, internal=False, refuri=location)
        link["classes"] = ["external"]
        return link
    # Names of the standard library, of packages without a page here, and of parameters in prose
    # stay plain text.  Names of this project lead somewhere, or the build says so.
    return None if _is_of_this_project(target) else content


def _public(target: str) -> str | None:
    """Return the full name of a public name, or of a member of one, however it is written."""
    words = target.split(".")
    for last, rest in ((words[-1], ""), (words[-2] if len(words) > 1 else "", f".{words[-1]}")):
        if words[0] not in ("daf_query", "daf_storage", "errors", last):
            continue
        for name in public_names():
            if name.name == last and (not rest or rest[1:] in name.members):
                return name.full_name + rest
        if last in error_names() and not rest:
            return f"daf_storage.errors.{last}"
    return None


def _is_of_this_project(target: str) -> bool:
    first, dot, _ = target.partition(".")
    available = {"daf_query", "daf_storage", *(name.name for name in public_names())}
    return bool(dot) and first in available


_ALIASES = {"np": "numpy", "pa": "pyarrow", "pd": "pandas", "ds": "pyarrow.dataset"}


def _foreign(target: str) -> str | None:
    head, _, rest = target.partition(".")
    name = f"{_ALIASES.get(head, head)}.{rest}".replace("pyarrow.lib.", "pyarrow.")
    name = name.replace("pyarrow._compute.", "pyarrow.compute.")
    name = name.replace("pyarrow._dataset.", "pyarrow.dataset.")
    for project in PROJECTS.values():
        if name in project.names:
            return project.url + project.location(name)
    return None


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("missing-reference", resolve, priority=400)
    return {"version": "1", "parallel_read_safe": True}
