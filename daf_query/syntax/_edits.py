"""Edits of a text at its places; nothing is regenerated."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Edit(NamedTuple):
    """A part of a text, and what stands there instead; an insertion where both places are one."""

    start: int
    stop: int
    new: str


def edited(text: str, edits: Iterable[Edit], start: int = 0, stop: int | None = None) -> str:
    """Return a text, or a part of it, after some edits.

    Of insertions at one place, those given first come first.

    Raises
    ------
    ValueError
        Two edits overlap: a rule is wrong.

    Examples
    --------
    >>> edited("a - b", [Edit(0, 0, "("), Edit(4, 5, "c"), Edit(5, 5, ")")])
    '(a - c)'
    """
    stop = len(text) if stop is None else stop
    pieces, done = [], start
    within = [edit for edit in edits if start <= edit.start <= edit.stop <= stop]
    for first, last, new in sorted(within, key=lambda edit: (edit.start, edit.stop)):
        if first < done:
            raise ValueError(f"edits overlap at {first} of {text!r}")
        pieces += [text[done:first], new]
        done = last
    return "".join([*pieces, text[done:stop]])


def place_before(edits: Iterable[Edit], place: int) -> int | None:
    """Return where a place of an edited text was in the original; None if it was inserted.

    Of what stands instead of something else, it is where that began.

    >>> [place_before([Edit(0, 0, "("), Edit(4, 5, "cd")], place) for place in (0, 1, 4, 6, 7)]
    [None, 0, 3, 4, 5]
    """
    shift = 0
    for start, stop, new in sorted(edits, key=lambda edit: (edit.start, edit.stop)):
        if place < start + shift:
            break
        if place < start + shift + len(new):
            return start if stop > start else None
        shift += len(new) - (stop - start)
    return place - shift
