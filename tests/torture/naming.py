"""A campaign of names that look alike, and of names that the formats use themselves.

Whatever may be called so must read as it was written, in order for verify and left alone by
repair; what may not is refused with an error of ours, and leaves nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from daf_storage import DafError, DafWriter, open_daf, repair, verify
from tests.torture.samples import (
    Form,
    Property,
    attempt,
    create,
    is_equal,
    path_of,
    properties,
    read,
)
from tests.torture.tally import LossError, WrongAnswerError

RESERVED = (
    "daf", "axes", "vectors", "matrices", "scalars", "indexes", "anndata", "zarr.json", ".zarray",
    ".zgroup", ".zattrs", ".zmetadata", "daf.json", "metadata.json", ".daf.staging", ".daf.indexes",
    "c", "0", "0.0", "nzind", "nzval", "nztxt", "colptr", "rowval", "name", "index", ".", "..", "",
)  # fmt: skip
LOOK_ALIKE = (
    ("\u00e9", "e\u0301"), ("a", "A", "a\0", "\0a"), ("x", "x.", "x ", " x", "x\u200b", "\ufeffx"),
    ("\u00b5", "\u03bc"), ("\ufb01", "fi"), ("\u212a", "K", "k"), ("\u00df", "\u1e9e", "ss"),
    ("y", "y.data", "y.json", "y.txt", "y.zip", "y.nzind", "y.json.json"), ("\u202ez", "z"),
    ("q\nr", "q\tr", "q\\r", "q/r", "q%2Fr"), ("w" * 255, "w" * 256, "w" * 200), ("\ud800",),
)  # fmt: skip


def _some_names(rng: random.Random) -> list[str]:
    chosen = list(rng.sample(RESERVED, 2))
    chosen += [name for group in rng.sample(LOOK_ALIKE, 2) for name in group]
    rng.shuffle(chosen)
    return chosen[:7]


def _entries(rng: random.Random) -> list[str]:
    """Return entries of an axis, of which some look alike."""
    return [name for name in dict.fromkeys(_some_names(rng)) if name not in ("", "\ud800")]


def _write(daf: DafWriter, rng: random.Random) -> dict[Property, Any]:
    """Store properties of such names; return those that were not refused."""
    stored: dict[Property, Any] = {}

    def store(one: Property, value: Any, work: Callable[[], None]) -> None:
        if not isinstance(attempt(work), DafError):
            stored[one] = value

    names = _some_names(rng)
    for axis in ["cell", *names[:2]]:
        entries = _entries(rng)
        add = Property("axis", (axis,))
        store(add, np.array(entries, object), partial(daf.add_axis, axis, entries))
    axes = [one.names[0] for one in list(stored)]
    for name in names if axes else ():  # all may be refused
        number, axis, other = rng.randrange(9), rng.choice(axes), rng.choice(axes)
        scalar = Property("scalar", (name,))
        store(scalar, str(number), partial(daf.set_scalar, name, str(number)))
        size = daf.axis_length(axis)
        vector = np.arange(size) + number
        where = Property("vector", (axis, name))
        store(where, vector, partial(daf.set_vector, axis, name, vector))
        values = np.arange(size * daf.axis_length(other)).reshape(size, -1) % (number + 1)
        form = sp.csc_array(values) if rng.random() < 0.5 else values
        where = Property("matrix", (axis, other, name))
        store(where, values, partial(daf.set_matrix, axis, other, name, form, relayout=False))
    return stored


def _check(path: Path, stored: dict[Property, Any]) -> None:
    with open_daf(path) as daf:
        if set(properties(daf)) != set(stored):
            raise LossError(f"stored {sorted(map(repr, set(properties(daf)) ^ set(stored)))}")
        for one, value in stored.items():
            if not is_equal(read(daf, one), value):
                raise WrongAnswerError(f"{one.path!r} is not what was stored")
            if one.kind == "axis":
                found = daf.axis_indices(one.names[0], list(value))
                if found.tolist() != list(range(len(value))):
                    raise WrongAnswerError(f"entries of {one.names[0]!r} are at {found.tolist()}")


def name_things(form: Form, folder: Path, rng: random.Random) -> None:
    """Call properties and entries by such names."""
    with create(folder, form) as daf:
        stored = _write(daf, rng)
    path = path_of(folder, form)
    _check(path, stored)
    problems = [one for one in verify(path, progress="never") if one.level == "error"]
    report = repair(path, progress="never")
    if problems or report.done or not report.is_whole:
        raise WrongAnswerError(f"a whole data set has problems {problems}, repaired {report}")
    _check(path, stored)
