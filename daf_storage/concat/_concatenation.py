"""One concatenation: axes first, then vectors, and the matrices at last."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage.anndata import AXIS_KEYS, NOTES, Report
from daf_storage.base import Progress, ShowProgress, check_name, progress_bar
from daf_storage.concat._axes import concatenated_axis, shared_axes
from daf_storage.concat._matrices import MatrixPlan, matrix_bytes, plan_matrix, write_matrix
from daf_storage.concat._members import Member, ResultAxis, Run
from daf_storage.concat._merged_notes import MergedNotes
from daf_storage.concat._options import Options
from daf_storage.concat._shared_properties import SharedProperties, write_kept_parts
from daf_storage.concat._vectors import VectorWriter, check_planned, plan_vector
from daf_storage.data import DafWriter


class Concatenation:
    """One concatenation, into an empty data set."""

    def __init__(
        self, daf: DafWriter, members: list[Member], options: Options, folder: Path | None
    ) -> None:
        self._daf = daf
        self._members = members
        self._options = options
        self._report = Report()
        self._notes = MergedNotes(members)
        self._run = Run(daf, members, options, {}, self._report.lost, self._add, folder)
        self._axes = self._run.axes
        self._progress: Progress | None = None

    def _add(self, size_bytes: int) -> None:
        if self._progress is not None:
            self._progress.add(size_bytes)

    def run(self, show: ShowProgress) -> Report:
        """Do it; return what was left out."""
        self._check_axes()
        self._add_axes()
        plans = list(self._matrix_plans())
        total = sum(matrix_bytes(plan, self._options) for plan in plans)
        with progress_bar("concatenate", total, show=show) as self._progress:
            vectors = VectorWriter(self._run)
            for axis in self._run.of_axes(is_concatenated=True):
                self._write_vectors(axis, vectors)
            self._write_shared(SharedProperties(self._run))
            for plan in plans:
                write_matrix(self._run, plan)
        write_kept_parts(self._run)
        self._notes.write(self._daf, self._report.lost)
        return self._report

    # Axes

    def _check_axes(self) -> None:
        dataset = self._options.dataset_axis
        for member in self._members:
            known = member.axes
            for axis in self._options.axes:
                if axis not in known:
                    raise errors.axis_not_found(member.daf.location, axis, known)
            if dataset in known:
                raise errors.ExistsError(
                    f"{member.daf.location}: there is an axis {dataset!r} already, as of what was "
                    "concatenated before; pass another dataset_axis"
                )
            for axis in self._options.axes if self._options.dataset_property else ():
                if dataset is not None and dataset in member.vectors(axis):
                    raise errors.ExistsError(
                        f"{member.daf.location}: there is a vector {dataset!r} of axis {axis!r} "
                        "already; pass another dataset_axis, "
                        "or dataset_property=False"
                    )
        if dataset is not None:
            check_name(self._daf.location, "axis", dataset)
        if dataset in self._options.axes:
            raise errors.InvalidInputError(
                f"the axis {dataset!r} is concatenated, so it is not that of the data sets; pass "
                "another dataset_axis"
            )

    def _add_axes(self) -> None:
        location = self._daf.location
        for number, _ in enumerate(self._options.axes):
            axis = concatenated_axis(self._members, self._options, number, location=location)
            self._axes[axis.name] = axis
        for axis in shared_axes(self._members, self._options, location=location):
            self._axes[axis.name] = axis
        dataset = self._options.dataset_axis
        names = pa.array([member.name for member in self._members], pa.string())
        if dataset is not None:
            self._daf.add_axis(dataset, names)
        for axis in self._axes.values():
            self._daf.add_axis(axis.name, axis.entries)
        for axis in self._run.of_axes(is_concatenated=True):
            if dataset is not None and self._options.dataset_property:
                counts = [axis.member_length(number) for number in range(len(names))]
                places = np.repeat(np.arange(len(counts)), counts)
                self._daf.set_vector(
                    axis.name, dataset, names.take(pa.array(places)), entries_of=dataset
                )

    # Properties of concatenated axes

    def _write_vectors(self, axis: ResultAxis, writer: VectorWriter) -> None:
        companions = self._companions(axis.name)
        for name in (name for name in self._run.vectors(axis) if name not in companions):
            plan = plan_vector(self._members, axis, name, self._options)
            if self._options.join == "inner" and plan.empty is None and None in plan.stored:
                self._left_out(f"vector {name!r} of axis {axis.name!r}", list(plan.stored))
                continue
            if self._options.join == "exact":
                check_planned(plan, self._members, location=self._daf.location)
            self._notes.add_vector(axis.name, name, writer.write(plan))

    def _companions(self, axis: str) -> set[str]:
        """Return the vectors that only say which values of another one are missing."""
        companions: set[str] = set()
        others: set[str] = set()
        for member in self._members:
            of_member = {
                str(r["is_missing"])
                for r in member.column_rules(axis).values()
                if "is_missing" in r
            }
            companions |= of_member
            others |= member.vectors(axis) - of_member
        return companions - others

    def _left_out(self, what: str, stored: list[Any]) -> None:
        lacking = [
            m.name for m, matrix in zip(self._members, stored, strict=True) if matrix is None
        ]
        self._report.lost(what, f'{lacking[0]!r} has none; join="outer" or empty= keeps it')

    def _matrix_plans(self) -> Iterator[MatrixPlan]:
        """Yield the matrices that have a concatenated axis, as they are to be written."""
        for rows, columns in self._pairs():
            pair = (rows.name, columns.name)
            for name in self._run.matrices(rows, columns):
                plan = plan_matrix(self._members, rows, columns, name, self._options)
                is_block = rows.is_concatenated
                empty = self._options.empty_of((*pair, name), (*pair[::-1], name))
                if None in plan.stored and not is_block and empty is None:
                    what = f"matrix {name!r} of axes {pair[0]!r} and {pair[1]!r}"
                    if self._options.join == "inner":
                        self._left_out(what, list(plan.stored))
                        continue
                    if self._options.join == "exact":
                        raise self._missing_matrix(plan, what)
                yield plan

    def _pairs(self) -> Iterator[tuple[ResultAxis, ResultAxis]]:
        """Yield rows and columns axes: the columns are concatenated, and perhaps the rows too."""
        concatenated = self._run.of_axes(is_concatenated=True)
        for number, columns in enumerate(concatenated):
            for rows in (*self._run.of_axes(is_concatenated=False), *concatenated[number:]):
                yield rows, columns

    def _missing_matrix(self, plan: MatrixPlan, what: str) -> errors.MatrixNotFoundError:
        lacking = next(
            m.name for m, matrix in zip(self._members, plan.stored, strict=True) if matrix is None
        )
        key = (plan.columns.name, plan.rows.name, plan.name)
        return errors.MatrixNotFoundError(
            f"{self._daf.location}: {lacking!r} has no {what}, which others have; pass "
            f"empty={{{key!r}: 0}} for a value that stands for it, "
            'join="outer" to fill it, or join="inner" to leave it out'
        )

    # Properties of other axes

    def _write_shared(self, shared: SharedProperties) -> None:
        special = {*AXIS_KEYS, NOTES}
        for name in sorted({n for m in self._members for n in m.daf.scalars_set()}):
            if name in AXIS_KEYS:
                shared.write_same_scalar(name)
            elif name not in special:
                shared.write_scalar(name)
        axes = self._run.of_axes(is_concatenated=False)
        for axis in axes:
            for name in self._run.vectors(axis):
                if shared.write_vector(axis, name):
                    self._notes.add_shared_vector(axis.name, name)
        for number, rows in enumerate(axes):
            for columns in axes[number:]:
                for name in self._run.matrices(rows, columns):
                    shared.write_matrix(rows, columns, name)
