"""Plots of slices: a heat map, violins of columns, two columns as points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from daf_query.plot import (
    axes_for,
    draw_grid,
    draw_points,
    draw_violins,
    names_inches,
    write_labels,
)
from daf_query.slice._export import Labels
from daf_storage import errors

_MOST_SQUARES: Final = 4_000_000
_MOST_VIOLINS: Final = 50
_MOST_NAMES: Final = 80
_INCHES: Final = 0.22


class Drawn(Protocol):
    """What plots ask of a slice; a `MatrixSlice` offers it."""

    rows_axis: str
    columns_axis: str
    name: str

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns."""
        ...

    @property
    def dtype(self) -> Any:
        """The numpy dtype of the values."""
        ...

    def _some_columns(self, places: Sequence[int]) -> npt.NDArray[Any]:
        """Return some of the columns as a dense array; others are not read."""
        ...

    def to_numpy(self) -> npt.NDArray[Any]:
        """Return a dense array."""
        ...

    def labels(self) -> tuple[Labels, Labels]:
        """Return what rows and columns are called."""
        ...


@dataclass(frozen=True, slots=True)
class SlicePlots:
    """The plots of a slice; `MatrixSlice.plot` is one.

    They draw with matplotlib (extra ``plot``), into ``ax=`` or the axes of a new figure, and return
    the axes.
    """

    part: Drawn
    """The slice."""

    def heatmap(self, *, ax: Any = None, cmap: str = "viridis") -> Any:
        """Draw a square of a colour for each value; names are written where they have room.

        Raises
        ------
        InvalidInputError
            There is nothing to draw, or more than four million values.
        MissingDependencyError
            matplotlib is not installed.

        Examples
        --------
        >>> import daf_query, daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["TATA", "GATA"])
        >>> daf.add_axis("gene", ["FOXA1", "WNT6"])
        >>> daf.set_matrix("cell", "gene", "UMIs", [[0, 1], [2, 3]])
        >>> part = daf_query.connect(daf).matrix("cell", "gene", "UMIs", rows=["GATA", "TATA"])
        >>> part.plot.heatmap().images[0].get_array().tolist()
        [[2, 3], [0, 1]]
        """
        part = self.part
        height, width = part.shape
        self._check_numbers()
        if height * width > _MOST_SQUARES:
            raise errors.InvalidInputError(
                f"{height:,} {part.rows_axis} x {width:,} {part.columns_axis} are too many for a "
                "heat map; choose some with rows= and columns=, or draw a profile of groups"
            )
        rows, columns = part.labels()
        groups = rows.names.tolist() if height <= _MOST_NAMES else ()
        entries = columns.names.tolist() if width <= _MOST_NAMES else ()
        inches = [_INCHES * min(max(size, 12), _MOST_NAMES) + 1.5 for size in (width, height)]
        beside, below = names_inches(groups), names_inches(entries)
        ax = axes_for(ax, inches=(inches[0] + beside, inches[1] + below))
        draw_grid(
            ax,
            part.to_numpy(),
            groups=groups,
            columns=entries,
            title=part.name,
            cmap=cmap,
            label=part.name,
        )
        return ax

    def violin(
        self, columns: Sequence[str | int] | None = None, *, ax: Any = None, seed: int = 0
    ) -> Any:
        """Draw how the values of each column are distributed, with a line at the median.

        Parameters
        ----------
        columns
            Entries of the slice, or their places in it; by default all, at most 50.
        seed
            What chooses the 20,000 values that a violin has its shape of, where there are more.

        Raises
        ------
        EntryNotFoundError
            The slice has no such column.
        InvalidInputError
            There is nothing to draw, or too much.
        MissingDependencyError
            matplotlib is not installed.
        """
        part = self.part
        self._check_numbers()
        places = self._places(range(part.shape[1]) if columns is None else columns)
        if len(places) > _MOST_VIOLINS:
            raise errors.InvalidInputError(
                f"{len(places):,} {part.columns_axis} are more than {_MOST_VIOLINS} violins; "
                "choose some with columns="
            )
        names = part.labels()[1].names
        labels = [str(names[place]) for place in places]
        below = names_inches(labels) if len(labels) > 3 else 0.0  # they are turned then
        ax = axes_for(ax, inches=(1.5 + 0.5 * max(len(places), 4), 4 + below))
        draw_violins(
            ax,
            list(self.part._some_columns(places).T),  # noqa: SLF001 - for this module
            labels,
            colours=["tab:blue"] * len(places),
            seed=seed,
        )
        write_labels(ax, y=part.name)
        return ax

    def scatter(
        self,
        x: str | int = 0,
        y: str | int = 1,
        *,
        ax: Any = None,
        size: float | None = None,
        seed: int = 0,
    ) -> Any:
        """Draw a point for each row, at the values of two columns: entries or places.

        Raises
        ------
        EntryNotFoundError
            The slice has no such column.
        MissingDependencyError
            matplotlib is not installed.
        """
        self._check_numbers()
        places = self._places([x, y])
        names = self.part.labels()[1].names
        ax = axes_for(ax, inches=(5.5, 5))
        points = self.part._some_columns(places)  # noqa: SLF001 - for this module
        style: dict[str, Any] = {"title": "", "size": size, "cmap": "viridis", "seed": seed}
        draw_points(ax, points, None, legend=False, **style)
        write_labels(ax, x=str(names[places[0]]), y=str(names[places[1]]), title=self.part.name)
        return ax

    def _places(self, columns: Sequence[str | int]) -> list[int]:
        """Return where columns stand in the slice."""
        columns = [columns] if isinstance(columns, str) else list(columns)
        if not columns:
            raise errors.InvalidInputError(
                f"there is nothing to draw: columns= names no {self.part.columns_axis}"
            )
        part = self.part
        width = part.shape[1]
        names: dict[str, int] = {}
        if any(isinstance(column, str) for column in columns):
            names = {str(name): place for place, name in enumerate(part.labels()[1].names)}
        places = []
        for column in columns:
            place = names.get(column) if isinstance(column, str) else column
            if isinstance(place, bool) or not isinstance(place, int | np.integer | None):
                raise errors.InvalidInputError(
                    f"a column is an entry of {part.columns_axis!r} or its place in the slice, "
                    f"not {column!r}"
                )
            if place is None or not 0 <= place < width:
                raise errors.EntryNotFoundError(
                    f"the slice of {width:,} {part.columns_axis} has none called {column!r}"
                    f"{errors.nearest(str(column), names)}"
                )
            places.append(int(place))
        return places

    def _check_numbers(self) -> None:
        part = self.part
        if part.dtype == object:
            raise errors.InvalidInputError(f"{part.name!r} is a matrix of strings; draw numbers")
        if not part.shape[0] or not part.shape[1]:
            raise errors.InvalidInputError(
                f"there is nothing to draw: the slice has {part.shape[0]:,} {part.rows_axis} and "
                f"{part.shape[1]:,} {part.columns_axis}"
            )
