"""The check of API pages: signature, parameters, result, errors and an example of each name.

What a page shows is the docstring, completed by `docstrings.py` with what means the same everywhere
and with `examples.txt`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from numpydoc.docscrape import NumpyDocString

from docs._site.docstrings import completed, undescribed
from docs._site.examples import examples
from docs._site.public_names import PublicName, public_names


def gaps() -> list[str]:
    """Return what is missing on the pages of all public names, a line each."""
    return [f"{place}: {gap}" for name in public_names() for place, gap in _of_name(name)]


def _of_name(name: PublicName) -> Iterator[tuple[str, str]]:
    if name.category in ("module", "data", "exception"):
        return  # what they are stands in one sentence, and other tests want that
    for gap in _of_value(name.value, name.name, is_class=name.category == "class"):
        yield name.full_name, gap
    for member in name.members:
        value = inspect.getattr_static(name.value, member)
        if isinstance(value, (classmethod, staticmethod)):
            value = value.__func__
        place = f"{name.name}.{member}"
        if inspect.isfunction(value):
            for gap in _of_value(value, place, is_class=False):
                yield f"{name.package}.{place}", gap
        elif isinstance(value, property) and not value.__doc__:
            yield f"{name.package}.{place}", "no docstring"


def _of_value(value: object, place: str, *, is_class: bool) -> Iterator[str]:
    assert callable(value)  # noqa: S101  # for the type checker
    text = inspect.getdoc(value)
    if not text:
        yield "no docstring"
        return
    docstring = NumpyDocString("\n".join(completed(value, text.split("\n"), name=place)))
    signature = inspect.signature(value)
    # Whoever makes an object reads what the class says; most are made by functions.
    if not is_class or docstring["Parameters"]:
        for parameter in undescribed(docstring, signature):
            yield f"the parameter {parameter!r} is not described"
    if not is_class and signature.return_annotation not in (None, "None", "NoReturn"):
        results = [*docstring["Returns"], *docstring["Yields"]]
        if not any(result.type and result.desc for result in results) and not _says_what(text):
            yield "what it returns is not described"
    stated = examples().get(place)
    if not docstring["Raises"] and (stated is None or stated.errors is None):
        yield "its errors are not described; if it has none, say so in examples.txt"
    if ">>> " not in str(docstring):
        yield "no example"


def _says_what(text: str) -> bool:
    """Say whether the docstring tells in its prose what is returned."""
    prose = text.partition(">>>")[0].casefold()
    return any(word in prose.split() for word in ("return", "returns", "yield", "yields"))
