"""The commands `reorder` and `index`, which change how the entries of an axis are stored."""

from __future__ import annotations

import argparse
from pathlib import Path

from daf_query._zarr_append import build_spatial_index
from daf_query.cli._sidecar import is_of_sidecar, sidecar_command
from daf_query.cli._summary import progress_of
from daf_query.index import build_index, build_point_index
from daf_query.session import connect
from daf_query.table import GEOMETRY
from daf_storage import DafError, open_daf
from daf_storage.errors import ReadOnlyError
from daf_storage.spi import visible_name


def reorder_command(options: argparse.Namespace) -> None:
    """Put an axis into another order and say so."""
    with connect(open_daf(options.path, "r+")) as session:
        session.reorder_axis(options.axis, options.by, progress=progress_of(options))
    if not options.quiet:
        print(f"reordered axis {options.axis} of {options.path} by {options.by}")


def index_command(options: argparse.Namespace) -> None:
    """Build indexes and say which."""
    if is_of_sidecar(options):
        sidecar_command(options)
        return
    try:
        opened = open_daf(options.path, "r+")
    except ReadOnlyError:  # it is read in place
        if options.points is not None:
            raise
        sidecar_command(options)
        return
    except DafError:
        if options.points is None and Path(options.path, options.axis).is_dir():
            _index_table(options)
            return
        raise
    with opened as daf:
        done = []
        if options.vectors or options.points is None:
            names = options.vectors or None
            done = build_index(daf, options.axis, names, progress=progress_of(options))
        if options.points is not None:
            build_point_index(daf, options.axis, *options.points)
            done.append(f"the points ({', '.join(options.points)})")
    if not options.quiet:
        listed = ", ".join(done) or "nothing: no string vector has many distinct values"
        print(visible_name(f"indexed {listed} of axis {options.axis} of {options.path}"))


def _index_table(options: argparse.Namespace) -> None:
    """Build the R-trees of a group of Zarr arrays."""
    for column in options.vectors or [GEOMETRY]:
        count = build_spatial_index(options.path, column, options.axis)
        if not options.quiet:
            print(f"indexed {column} of {count:,} rows of {options.axis} of {options.path}")
