"""The commands `import`, `export` and `convert`, which copy whole data sets."""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Final

from daf_query.cli._packing import counts_of, packing_of
from daf_query.cli._summary import described, progress_of, size_bytes
from daf_storage import (
    AnnDataWarning,
    Report,
    convert,
    export_h5ad,
    import_h5ad,
    open_daf,
    open_overlay,
)
from daf_storage.spi import readable_bytes, visible_name

_IMPORT_CHUNK_KB: Final = 64
"""Also where other options of packing are given; as `import_h5ad` has it by default."""


def import_command(options: argparse.Namespace) -> None:
    """Import an h5ad file and print the report."""
    started = time.monotonic()
    warnings.simplefilter("ignore", AnnDataWarning)  # the report lists them
    report = import_h5ad(
        options.source,
        options.destination,
        obs_is=options.obs_is,
        var_is=options.var_is,
        X_is=options.X_is,
        categorical_axes=options.axis_of,
        relayout=not options.one_layout,
        duplicates="make_unique" if options.make_unique else "error",
        strict=options.strict,
        counts_as=counts_of(options),
        if_exists="replace" if options.overwrite else "error",
        zarr_format=options.zarr_format,
        packed=packing_of(options, chunk_kb=_IMPORT_CHUNK_KB),
        progress=progress_of(options),
        **({} if options.memory is None else {"memory_bytes": options.memory}),
    )
    if options.quiet:
        return
    seconds = time.monotonic() - started
    with open_daf(options.destination) as daf:
        summary = daf.summary()
    lengths = " x ".join(f"{axis.length:,} {visible_name(axis.name)}" for axis in summary.axes[:2])
    vectors = sum(len(axis.vectors) for axis in summary.axes)
    size = readable_bytes(size_bytes(options.destination))
    print(
        f"imported {options.source} into {options.destination} in {seconds:.1f} s\n"
        f"{lengths}; {len(summary.axes)} axes, {vectors} vectors, "
        f"{len(summary.matrices)} {'matrix' if len(summary.matrices) == 1 else 'matrices'}, "
        f"{size} on disk"
    )
    _print_report(report)


def export_command(options: argparse.Namespace) -> None:
    """Export a data set and print the report."""
    warnings.simplefilter("ignore", AnnDataWarning)  # the report lists them
    base = open_daf(options.path)
    with base if options.overlay is None else open_overlay(base, options.overlay, "r") as daf:
        report = export_h5ad(
            daf,
            options.destination,
            obs_is=options.obs_is,
            var_is=options.var_is,
            X_is=options.X_is,
            strict=options.strict,
            if_exists="replace" if options.overwrite else "error",
            progress=progress_of(options),
        )
    if not options.quiet:
        print(f"exported {options.path} to {described(options.destination)}")
        _print_report(report)


def convert_command(options: argparse.Namespace) -> None:
    """Copy a data set into another format and print its size."""
    started = time.monotonic()
    convert(
        options.source,
        options.destination,
        if_exists="replace" if options.overwrite else "error",
        zarr_format=options.zarr_format,
        packed=packing_of(options),
        counts_as=counts_of(options),
        link=options.link,
        **({} if options.memory is None else {"memory_bytes": options.memory}),
        progress=progress_of(options),
    )
    if not options.quiet:
        seconds = time.monotonic() - started
        size = readable_bytes(size_bytes(options.destination))
        print(
            f"converted {options.source} to {options.destination} in {seconds:.1f} s, and compared "
            f"the two; {size} on disk"
        )


def _print_report(report: Report) -> None:
    for item in report.items:
        print(f"  {visible_name(item)}")
