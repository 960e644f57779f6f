"""Docstrings as the API pages show them: with every parameter and with what is returned.

A docstring describes the parameters that may surprise.  The others mean the same everywhere; they
are described once, in `COMMON_PARAMETERS`, and their types stand in the signature.  Errors and
examples that it leaves out come from `examples.txt`.
"""

from __future__ import annotations

import inspect
from typing import Any

from numpydoc.docscrape import NumpyDocString, Parameter
from sphinx.application import Sphinx

from daf_storage import errors
from docs._site.common_parameters import COMMON_PARAMETERS
from docs._site.examples import examples


def completed(value: object, lines: list[str], *, name: str = "") -> list[str]:
    """Return a docstring with what it leaves out.

    Parameters
    ----------
    name
        With its class, without its package; for examples and errors.
    """
    if not callable(value) or not any(lines):
        return lines
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return lines
    docstring = NumpyDocString("\n".join(lines))
    missing = set(undescribed(docstring, signature))
    if not inspect.isclass(value) or docstring["Parameters"]:
        docstring["Parameters"] = _parameters(docstring, signature, missing)
    if not inspect.isclass(value):
        docstring["Returns"] = _returns(docstring, signature, name)
    if example := examples().get(name):
        docstring["Raises"] = [*docstring["Raises"], *map(_raised, example.errors or ())]
        if example.code:
            docstring["Examples"] = [*docstring["Examples"], "", *example.code.split("\n")]
    return str(docstring).split("\n")


def _raised(error: str) -> Parameter:
    """Return an entry of the section of errors, in the words of the error itself."""
    docstring = inspect.getdoc(getattr(errors, error)) or ""
    return Parameter("", error, [docstring.split("\n")[0]])


def undescribed(docstring: NumpyDocString, signature: inspect.Signature) -> list[str]:
    """Return the names of the parameters that a docstring does not describe."""
    described = {
        name.strip().lstrip("*\\")
        for section in ("Parameters", "Other Parameters")
        for parameter in docstring[section]
        for name in parameter.name.split(",")
    }
    return [
        name
        for name in signature.parameters
        if name not in described and name not in ("self", "cls") and not name.startswith("_")
    ]


def _parameters(
    docstring: NumpyDocString, signature: inspect.Signature, missing: set[str]
) -> list[Parameter]:
    """Return all parameters, those in the order of the signature that the docstring leaves out."""
    ordered = list(docstring["Parameters"])
    for position, name in enumerate(n for n in signature.parameters if n not in ("self", "cls")):
        if name in missing and name in COMMON_PARAMETERS:
            ordered.insert(position, Parameter(name, "", [COMMON_PARAMETERS[name]]))
    return [_with_type(parameter, signature) for parameter in ordered]


def _with_type(parameter: Parameter, signature: inspect.Signature) -> Parameter:
    stated = signature.parameters.get(parameter.name.lstrip("*\\"))
    if parameter.type or stated is None or stated.annotation is inspect.Parameter.empty:
        return parameter
    return Parameter(parameter.name, _type_text(stated.annotation), parameter.desc)


def _returns(docstring: NumpyDocString, signature: inspect.Signature, name: str) -> list[Parameter]:
    annotation = signature.return_annotation
    stated = docstring["Returns"]
    if stated or docstring["Yields"] or annotation in (None, "None", inspect.Signature.empty):
        return list(stated)
    summary = " ".join(docstring["Summary"])
    sentence = summary.removeprefix("Return ").removeprefix("Yield ")
    text = [sentence[:1].upper() + sentence[1:]] if sentence != summary else []
    if name in examples() and examples()[name].returns:
        text = [examples()[name].returns]
    return [Parameter("", _type_text(annotation), text)]


def _type_text(annotation: object) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return f"``{text}``"


def _process(*event: Any) -> None:
    """Complete a docstring in place; see the event of autodoc."""
    _app, what, full_name, value, _options, lines = event
    if what in ("function", "method", "class"):
        name = full_name.partition(".")[2]
        lines[:] = completed(value, lines, name=name)


def _without_signature(*event: Any) -> tuple[str, None] | None:
    """Leave out the arguments of a class that is made by functions, not by users."""
    _app, what, _name, value, *_ = event
    text = inspect.getdoc(value) or ""
    if what == "class" and not NumpyDocString(text)["Parameters"]:
        return "", None
    return None


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx, before numpydoc."""
    app.connect("autodoc-process-docstring", _process, priority=400)
    app.connect("autodoc-process-signature", _without_signature, priority=600)
    return {"version": "1", "parallel_read_safe": True}
