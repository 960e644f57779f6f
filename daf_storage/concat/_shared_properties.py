"""Merge what does not run along a concatenated axis: scalars, and what runs along shared axes.

It is small beside what is concatenated, so each property is in memory while it is merged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage._lazy import lazy_module
from daf_storage.concat._members import Member, ResultAxis, Run, promoted, string_of
from daf_storage.concat._merged_notes import Rule
from daf_storage.concat._properties import MergedMatrix, MergedVector
from daf_storage.data import kept, new_property

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

_HINT = "it does not run along a concatenated axis; merge= keeps it"
_DIFFER = "the data sets have different values"


def merge_scalar(run: Run, name: str, action: str) -> None:
    """Merge a scalar."""
    what = f"scalar {name!r}"
    values = [_scalar(member, name) for member in run.members]
    known = [value for value in values if value is not None]
    if action == "skip":
        run.report.lost(what, _HINT)
    elif action == "collect":
        _collect_scalar(run, name, values)
    elif action == "last" or all(_is_same(value, known[0]) for value in known):
        run.daf.set_scalar(name, known[-1])
    else:
        run.report.lost(what, _DIFFER)


def _collect_scalar(run: Run, name: str, values: list[Any]) -> None:
    what = f"scalar {name!r}"
    axis, empty = _dataset_axis(run, what), run.options.empty_of(name)
    _check_collected(run, [value is None for value in values], empty, what, name)
    filled = [empty if value is None else value for value in values]
    if any(isinstance(value, str) for value in filled):
        strings = pa.array(["" if v is None else string_of(v) for v in filled], pa.string())
        run.daf.set_vector(axis, name, strings, empty_is_missing=None in filled)
        return
    numbers = [np.nan if value is None else value for value in filled]
    dtypes = [np.asarray(number).dtype for number in numbers]
    run.daf.set_vector(axis, name, np.array(numbers, promoted(dtypes)))


def _dataset_axis(run: Run, what: str) -> str:
    if run.options.dataset_axis is None:
        raise errors.InvalidInputError(
            f"{run.daf.location}: {what} cannot be collected, since there is no axis of the data "
            "sets; leave out dataset_axis=None, or merge it with 'last' or 'same'"
        )
    return run.options.dataset_axis


def _check_collected(run: Run, lacks: list[bool], empty: Any, what: str, key: object) -> None:
    """Raise if a member lacks what is collected, and nothing stands for it."""
    if any(lacks) and empty is None and run.options.join != "outer":
        raise errors.NotFoundError(
            f"{run.daf.location}: {run.members[lacks.index(True)].name!r} has no {what}, which is "
            f"collected; pass empty={{{key!r}: ...}} for a value that stands for it, or "
            'join="outer"'
        )


def merge_vector(run: Run, axis: ResultAxis, name: str) -> Rule | None:
    """Merge a vector of a shared axis; return its rule if the result has it on the same axis."""
    key = (axis.name, name)
    action = run.options.merge_action(key)
    what = f"vector {name!r} of axis {axis.name!r}"
    if action == "skip":
        run.report.lost(what, _HINT)
        return None
    vector = MergedVector(run, axis, name)
    if action == "collect":
        dataset_axis, lacks = _dataset_axis(run, what), [one is None for one in vector.stored]
        _check_collected(run, lacks, vector.empty, what, key)
        vector.write_columns(dataset_axis)
        return None
    is_filled = vector.lacks_values and vector.empty is None
    if action == "same" and not vector.agrees():
        run.report.lost(what, _DIFFER)
    elif action == "same" and is_filled and run.options.join != "outer":
        run.report.lost(what, "no data set that has it has all entries")
    else:
        return vector.write()
    return None


def merge_matrix(run: Run, rows: ResultAxis, columns: ResultAxis, name: str) -> None:
    """Merge a matrix of two shared axes, unless it is to be left out."""
    axes = (rows.name, columns.name)
    action = run.options.merge_action((*axes, name), (*axes[::-1], name))
    what = f"matrix {name!r} of axes {axes[0]!r} and {axes[1]!r}"
    having = [n for n, member in enumerate(run.members) if name in member.matrices(*axes)]
    if action == "skip":
        run.report.lost(what, _HINT)
        return
    if action == "collect":
        raise errors.InvalidInputError(
            f"{run.daf.location}: {what} cannot be collected, since there are no arrays of "
            "three dimensions; merge it with 'last', 'same' or 'skip'"
        )
    last = having[-1]
    are_whole = all(a.alignments[n].places is None for a in (rows, columns) for n in having)
    if action == "same" and not (are_whole and _agree(run, axes, name, having)):
        run.report.lost(what, f"{_DIFFER}, or entries")
        return
    if columns.alignments[last].places is not None:
        rows, columns = columns, rows
    own_rows, own_columns = (
        ResultAxis(axis.name, axis.entries, (axis.alignments[last],)) for axis in (rows, columns)
    )
    MergedMatrix(run, own_rows, own_columns, name, [run.members[last]]).write()


def _agree(run: Run, axes: tuple[str, str], name: str, having: list[int]) -> bool:
    first, *others = (run.members[n].daf.get_np_matrix(*axes, name) for n in having)
    return all(_is_same_matrix(first, other) for other in others)


def _scalar(member: Member, name: str) -> Any:
    """Return a scalar in the type in which it is stored; None if there is none."""
    value = member.daf.get_scalar(name, default=None)
    is_string = value is None or isinstance(value, str)
    return value if is_string else member.daf.scalar_type(name).dtype.type(value)


def _is_same(first: Any, other: Any) -> bool:
    is_nan = first != first and other != other  # noqa: PLR0124 - NaN
    return bool(type(first) is type(other) and (first == other or is_nan))


def _is_same_matrix(one: Any, other: Any) -> bool:
    if sp.issparse(one) != sp.issparse(other) or one.dtype != other.dtype:
        return False
    parts = [
        [each.indptr, each.indices, each.data] if sp.issparse(each) else [each]
        for each in (one, other)
    ]
    if sp.issparse(one) and one.format != other.format:
        return _is_same_matrix(one.tocsc(), other.tocsc())
    return all(
        np.array_equal(first, second, equal_nan=first.dtype.kind == "f")
        for first, second in zip(*parts, strict=True)
    )


def write_kept_parts(run: Run) -> None:
    """Merge what is kept of ``uns``; what is aligned to an axis is left out, and noted."""
    given: dict[str, list[kept.KeptPart]] = {}
    for member in run.members:
        for part in kept.parts(member.daf.tree):
            if part.axes:
                what = f"{part.part}[{part.key!r}]" if part.key else part.part
                run.report.lost(
                    what, f"it lies beside the data in {member.name!r}, and is not concatenated"
                )
            else:
                given.setdefault(part.path, []).append(part)
    for path, parts in given.items():
        action = run.options.merge_action(parts[0].key)
        last = parts[-1].array.read()
        is_same = all(np.array_equal(part.array.read(), last) for part in parts)
        if action == "last" or (action == "same" and is_same):
            with new_property(run.daf, path) as changes:
                kept.make_groups(run.daf.tree, changes, path)
                changes.write_array(path, last)
        else:
            run.report.lost(
                f"uns[{parts[0].key!r}]", "merge= keeps it, if it is 'last', or 'same' and is"
            )
