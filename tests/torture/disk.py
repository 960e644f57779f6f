"""Campaign against a disk whose n-th write fails below HDF5: changes of h5df files, and exports.

The case runs in a child process, so that the end of the interpreter counts as a crash.
"""

from __future__ import annotations

import errno
import random
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from daf_storage import errors
from tests.faulty_disk import FOR_EVER, faults
from tests.torture.mutation import base_of
from tests.torture.samples import Form, Property, is_equal
from tests.torture.tally import LossError, WrongAnswerError
from tests.torture.writing import (
    CHANGING,
    Operation,
    check_recovered,
    contents,
    contents_after,
    in_child,
    operations,
)

_PRODUCTS = {"export": "out.h5ad", "convert-hdf5": "copy.h5df"}
_NAMES = (
    "set_scalar", "set_vector", "set_strings", "set_sparse", "set_dense", "add_axis", "relayout", "fill",
    *CHANGING, *_PRODUCTS, "reorder", "reorder", "export",
)  # fmt: skip
"""What writes HDF5; some of it more often."""


def disk(form: Form, folder: Path, rng: random.Random) -> None:
    """Let a write fail below HDF5, once or with all that follow."""
    base = base_of(form, with_indexes=False)
    name = rng.choice(_NAMES)
    contents_after(form, name)
    path = base.copy(folder)
    first = int(10 ** rng.uniform(0, 3))
    last = rng.choice((first, FOR_EVER))
    number = rng.choice((errno.EIO, errno.ENOSPC))
    work = partial(_faulty, operations(form)[name], path, first, last, number)
    is_done = in_child(work)
    if first == last and not is_done:
        raise LossError(f"{form} {name}: a write that failed once was not tried again")
    _check_product(path, form, name, is_done=is_done)
    with suppress(*(_BROKEN if last == FOR_EVER else ())):
        check_recovered(path, form, name, is_done=is_done)
        if name == "reorder":
            _check_order(contents(path), base.values, contents_after(form, name))


_BROKEN = (LossError, errors.StorageError, errors.FormatError)
"""What a disk that works no more may leave of HDF5, which writes in place; but no wrong values."""


def _faulty(operation: Operation, path: Path, first: int, last: int, number: int) -> None:
    with faults(path.parent, first, last, number):
        operation(path)


def _check_product(path: Path, form: Form, name: str, *, is_done: bool) -> None:
    """Check that what was made of it is as without faults, or is not there."""
    product = path.parent / _PRODUCTS.get(name, "nothing")
    if not product.exists():
        if is_done and name in _PRODUCTS:
            raise LossError(f"{form} {name}: it was done, and is not there")
        return
    expected, found = _product_values(form, name), contents(product)
    if found.keys() != expected.keys():
        raise LossError(f"{form} {name}: {sorted(one.path for one in found)}")
    different = [one.path for one in found if not is_equal(found[one], expected[one])]
    if different:
        raise WrongAnswerError(f"{form} {name}: {different}")


@cache
def _product_values(form: Form, name: str) -> dict[Property, Any]:
    base = base_of(form, with_indexes=False)
    folder = base.path.parent.parent / f"{base.path.parent.name}-{name}-product"
    folder.mkdir(exist_ok=True)
    operations(form)[name](base.copy(folder))
    return contents(folder / _PRODUCTS[name])


def _check_order(
    found: dict[Property, Any], before: dict[Property, Any], after: dict[Property, Any]
) -> None:
    if not any(all(is_equal(found[one], side[one]) for one in side) for side in (before, after)):
        raise WrongAnswerError("some of it is in the new order, and some in the old")
