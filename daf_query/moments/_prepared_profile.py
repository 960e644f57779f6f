"""Profiles before and after the matrix was read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from daf_query.matrix import Selection
from daf_query.moments._accumulator import Moments
from daf_query.moments._group_moments import group_moments
from daf_query.moments._grouping import Groups
from daf_query.moments._profile_table import profile_schema, profile_table, row_bytes
from daf_query.moments._threads import DEFAULT_BLOCKS, BlockOptions
from daf_storage import DafReader, ShowProgress, errors
from daf_storage.spi import progress_bar

PROFILE_MAX_BYTES: Final = 4 << 30
"""How large a profile may be by default: 4 GiB."""


class NamedEntries(Protocol):
    """What has the entries of the columns: a data set, or the aligned axis of several."""

    @property
    def location(self) -> str:
        """Where it is, for messages."""
        ...

    def get_pa_vector(self, axis: str, name: str) -> Any:
        """Return a vector as Arrow."""
        ...


@dataclass(frozen=True, slots=True)
class GroupProfile:
    """What a profile consists of."""

    daf: NamedEntries
    """The data set that it comes from; of several as one, the aligned axis of their columns."""
    axes: tuple[str, str]
    """That of the rows which were grouped, and that of the columns."""
    name: str
    """The name of the matrix."""
    groups: Mapping[str, pa.Array]
    """The value of each group, by the names of the group columns."""
    columns: Selection
    """The selected columns."""
    moments: Moments
    """The numbers, of shape ``(groups, columns)``."""

    def to_table(self) -> pa.Table:
        """Return a row for each group and column."""
        return profile_table(self.daf, self.axes[1], self.groups, self.columns, self.moments)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A profile whose groups are known, and for which nothing of the matrix was read."""

    daf: NamedEntries
    axes: tuple[str, str]
    name: str
    groups: Groups
    columns: Selection

    @property
    def schema(self) -> pa.Schema:
        """The names and types of its columns."""
        types = {name: values.type for name, values in self.groups.columns.items()}
        return profile_schema(types, self.axes[1])

    def check_size(self, max_bytes: int | None) -> None:
        """Raise if the result would be too large.

        Raises
        ------
        BudgetError
            It would have more bytes.
        """
        n_groups, n_columns = self.groups.rows.n_groups, self.columns.positions.size
        n_bytes = n_groups * n_columns * row_bytes(self.groups.columns)
        if max_bytes is not None and n_bytes > max_bytes:
            raise errors.BudgetError(
                f"{self.daf.location}: the profile of {self.name!r} would have "
                f"{n_groups * n_columns:,} rows ({n_groups:,} groups x {n_columns:,} "
                f"{self.axes[1]}), about {n_bytes:,} bytes, which is more than "
                f"max_bytes={max_bytes:,}; choose fewer groups or columns, or pass a larger "
                "max_bytes to session.profile() (None: no limit)"
            )

    def moments(self, options: BlockOptions, progress: Callable[[int], None]) -> Moments:
        """Read the matrix, and return the moments of each group and column."""
        raise NotImplementedError

    def compute(
        self, *, progress: ShowProgress = "auto", options: BlockOptions = DEFAULT_BLOCKS
    ) -> GroupProfile:
        """Read the matrix, and return the profile."""
        with progress_bar("profile", None, show=progress) as bar:
            moments = self.moments(options, bar.add)
        return GroupProfile(
            self.daf, self.axes, self.name, self.groups.columns, self.columns, moments
        )


@dataclass(frozen=True, slots=True)
class PreparedProfile(Prepared):
    """A profile of one data set, before the matrix was read."""

    daf: DafReader

    def moments(self, options: BlockOptions, progress: Callable[[int], None]) -> Moments:
        """Read the matrix, and return the moments of each group and column."""
        return group_moments(
            self.daf,
            self.axes,
            self.name,
            self.groups.rows,
            self.columns,
            options=options,
            progress=progress,
        )
