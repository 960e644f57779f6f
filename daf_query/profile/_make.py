"""Make a profile: choose rows and columns, group the rows, and compute the moments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from daf_query.matrix import Selection
from daf_query.moments import DEFAULT_BLOCKS, BlockOptions, group_moments
from daf_query.profile._group_items import By, group_items, written_items
from daf_query.profile._groups import Groups, make_groups
from daf_query.profile._profile import GroupProfile, Profile
from daf_query.profile._table import STATISTICS, row_bytes
from daf_query.scan import INDEX, NAME
from daf_query.slice import Selector, resolve, written_selector
from daf_query.sql import Engine
from daf_storage import DafReader, ShowProgress, errors
from daf_storage.spi import progress_bar

PROFILE_MAX_BYTES: Final = 4 << 30
"""Default of ``max_bytes=``: 4 GiB."""


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """What a profile is asked for."""

    rows_axis: str
    columns_axis: str
    name: str
    """The name of the matrix."""
    by: By = ()
    """What the rows are grouped by."""
    rows: Selector = None
    columns: Selector = None


@dataclass(frozen=True, slots=True)
class PreparedProfile:
    """A profile whose groups are known, and for which nothing of the matrix was read."""

    daf: DafReader
    request: ProfileRequest
    groups: Groups
    columns: Selection

    @property
    def asked(self) -> dict[str, Any]:
        """What was asked, for the provenance."""
        request = self.request
        axes = (request.rows_axis, request.columns_axis)
        counts = (self.groups.rows.positions.size, self.columns.positions.size)
        rows, columns = (
            written_selector(selector, count, self.daf.axis_length(axis))
            for selector, count, axis in zip(
                (request.rows, request.columns), counts, axes, strict=True
            )
        )
        return {
            "profile": {"name": request.name, "rows_axis": axes[0], "columns_axis": axes[1]},
            "by": written_items(request.by),
            "rows": rows,
            "columns": columns,
        }

    @property
    def n_rows(self) -> int:
        """How many rows it will have."""
        return self.groups.rows.n_groups * self.columns.positions.size

    def check_size(self, max_bytes: int | None) -> None:
        """Raise if the result would be too large.

        Raises
        ------
        SizeLimitError
            It would have more bytes.
        """
        n_bytes = self.n_rows * row_bytes(self.groups.columns)
        if max_bytes is not None and n_bytes > max_bytes:
            raise errors.SizeLimitError(
                f"{self.daf.location}: the profile of {self.request.name!r} would have "
                f"{self.n_rows:,} rows ({self.groups.rows.n_groups:,} groups x "
                f"{self.columns.positions.size:,} {self.request.columns_axis}), about "
                f"{n_bytes:,} bytes, which is more than max_bytes={max_bytes:,}; choose fewer "
                "groups or columns=, or pass a larger max_bytes (None: no limit)"
            )

    def compute(
        self, *, progress: ShowProgress = "auto", options: BlockOptions = DEFAULT_BLOCKS
    ) -> GroupProfile:
        """Read the matrix."""
        request = self.request
        axes = (request.rows_axis, request.columns_axis)
        with progress_bar("profile", None, show=progress) as bar:
            moments = group_moments(
                self.daf,
                axes,
                request.name,
                self.groups.rows,
                self.columns,
                options=options,
                progress=bar.add,
            )
        return GroupProfile(
            self.daf, axes, request.name, self.groups.columns, self.columns, moments, self.asked
        )


def prepare(engine: Engine, schema: str, request: ProfileRequest) -> PreparedProfile:
    """Check what is asked for, choose rows and columns, and group the rows.

    Raises
    ------
    NotFoundError
        An axis, matrix, column or entry is unknown.
    QueryError
        A predicate or an expression is wrong.
    """
    daf = engine.connections.reader(schema)
    axes = (request.rows_axis, request.columns_axis)
    for axis in axes:
        if not daf.has_axis(axis):
            raise errors.axis_not_found(daf.location, axis, daf.axes_set())
    if not daf.has_matrix(*axes, request.name):
        known = daf.matrices_set(*axes)
        raise errors.matrix_not_found(daf.location, *axes, request.name, known)
    vectors = {NAME, INDEX, *daf.vectors_set(axes[0])}
    items = group_items(request.by, vectors, {axes[1], *STATISTICS})
    rows, columns = (
        resolve(engine, schema, axis, selector, keyword=keyword, other=other)
        for axis, other, selector, keyword in (
            (axes[0], axes[1], request.rows, "rows"),
            (axes[1], axes[0], request.columns, "columns"),
        )
    )
    groups = make_groups(engine, schema, axes[0], items, rows.positions)
    return PreparedProfile(daf, request, groups, columns)


def make_profile(
    engine: Engine,
    schema: str,
    request: ProfileRequest,
    *,
    max_bytes: int | None,
    progress: ShowProgress,
) -> Profile:
    """Return a profile; see `DafSession.profile`."""
    prepared = prepare(engine, schema, request)
    prepared.check_size(max_bytes)
    return Profile(engine, prepared.compute(progress=progress))
