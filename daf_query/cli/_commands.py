"""What each command does, in terms of the two packages."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import sys
import time
from pathlib import Path

from daf_query._zarr_append import build_spatial_index
from daf_query.cli import _output
from daf_query.cli._exit_codes import DATA_LOST, DONE
from daf_query.demo import run_demo
from daf_query.index import build_index, build_point_index, rebuild_indexes
from daf_query.session import connect
from daf_query.slice import check_format
from daf_query.table import GEOMETRY
from daf_storage import (
    DafError,
    DafReader,
    DafServer,
    DafWriter,
    Packing,
    Report,
    ShowProgress,
    convert,
    errors,
    export_h5ad,
    import_h5ad,
    open_daf,
    repair,
    verify,
)
from daf_storage.spi import progress_bar


def import_command(options: argparse.Namespace) -> None:
    """Import an h5ad file and say what came of it."""
    started = time.monotonic()
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
        overwrite=options.overwrite,
        progress=_show(options),
    )
    if options.quiet:
        return
    seconds = time.monotonic() - started
    with open_daf(options.destination) as daf:
        found = daf.summary()
    lengths = " x ".join(f"{axis.length:,} {axis.name}" for axis in found.axes[:2])
    vectors = sum(len(axis.vectors) for axis in found.axes)
    size = _output.human_bytes(_size_bytes(options.destination))
    print(
        f"imported {options.source} into {options.destination} in {seconds:.1f} s\n"
        f"{lengths}; {len(found.axes)} axes, {vectors} vectors, "
        f"{len(found.matrices)} {'matrix' if len(found.matrices) == 1 else 'matrices'}, "
        f"{size} on disk"
    )
    _print_report(report)


def export_command(options: argparse.Namespace) -> None:
    """Export a data set and say what came of it."""
    with open_daf(options.path) as daf:
        report = export_h5ad(
            daf,
            options.destination,
            obs_is=options.obs_is,
            var_is=options.var_is,
            X_is=options.X_is,
            strict=options.strict,
            overwrite=options.overwrite,
            progress=_show(options),
        )
    if not options.quiet:
        print(f"exported {options.path} to {_output.described(options.destination)}")
        _print_report(report)


def convert_command(options: argparse.Namespace) -> None:
    """Copy a data set into another format and say what came of it."""
    started = time.monotonic()
    convert(
        options.source,
        options.destination,
        overwrite=options.overwrite,
        zarr_format=options.zarr_format,
        packed=_packing(options),
        link=options.link,
        progress=_show(options),
    )
    if not options.quiet:
        seconds = time.monotonic() - started
        size = _output.human_bytes(_size_bytes(options.destination))
        print(
            f"converted {options.source} to {options.destination} in {seconds:.1f} s, and compared "
            f"the two; {size} on disk"
        )


def reorder_command(options: argparse.Namespace) -> None:
    """Put an axis into another order and say so."""
    with connect(open_daf(options.path, "r+")) as session:
        session.reorder_axis(options.axis, options.by, progress=_show(options))
    if not options.quiet:
        print(f"reordered axis {options.axis} of {options.path} by {options.by}")


def index_command(options: argparse.Namespace) -> None:
    """Build indexes and say which."""
    try:
        opened = open_daf(options.path, "r+")
    except DafError:
        if options.points is None and Path(options.path, options.axis).is_dir():
            _index_table(options)
            return
        raise
    with opened as daf:
        assert isinstance(daf, DafWriter)  # noqa: S101 - that is what the mode means
        done = []
        if options.vectors or options.points is None:
            names = options.vectors or None
            done = build_index(daf, options.axis, names, progress=_show(options))
        if options.points is not None:
            build_point_index(daf, options.axis, *options.points)
            done.append(f"the points ({', '.join(options.points)})")
    if not options.quiet:
        listed = ", ".join(done) or "nothing: no text has many different values"
        print(f"indexed {listed} of axis {options.axis} of {options.path}")


def _index_table(options: argparse.Namespace) -> None:
    """Build the R-trees of a group of Zarr arrays."""
    for column in options.vectors or [GEOMETRY]:
        count = build_spatial_index(options.path, column, options.axis)
        if not options.quiet:
            print(f"indexed {column} of {count:,} rows of {options.axis} of {options.path}")


def _packing(options: argparse.Namespace) -> bool | Packing:
    """Return how to pack, from the options of the command line."""
    if not options.packed and options.codec is None and options.level is None:
        return False
    level = -1 if options.level is None else options.level
    return Packing(options.codec or Packing().codec, level)


def info_command(options: argparse.Namespace) -> None:
    """Print what a data set holds."""
    with open_daf(options.path) as daf:
        if options.format == "json":
            print(json.dumps(daf.summary().as_dict(), indent=2))
        else:
            print(daf.description())


def sql_command(options: argparse.Namespace) -> None:
    """Print or write the rows of a query."""
    output = _output.file_of(options.output)
    kind: _output.Kind = options.format or _output.format_of(output)
    with connect(options.path) as session:
        if options.explain:
            _output.explanation(session.explain(options.query), kind)
            return
        frame = session.sql(options.query)
        if output is None:
            _output.to_stdout(frame, kind, max_rows=options.max_rows)
        else:
            _output.to_file(frame, kind, Path(output), progress=_show(options))


def extract_command(options: argparse.Namespace) -> None:
    """Write a slice of a matrix."""
    output = _output.file_of(options.output)
    target = output or _output.to_standard_output(options.format)
    check_format(Path(target), options.format)
    with connect(options.path) as session:
        daf = session.data_set()
        rows_axis, columns_axis = matrix_axes(
            daf, options.matrix, options.rows_axis, options.columns_axis
        )
        part = session.matrix(
            rows_axis, columns_axis, options.matrix, rows=options.rows, columns=options.columns
        )
        element_bytes = part.dtype.itemsize + 4
        with progress_bar("extract", part.plan.cost_bytes, show=_show(options)) as progress:
            part.load(progress=lambda done: progress.add(done * element_bytes))
        part.save(target, format=options.format)
        if not options.quiet:
            where = "standard output" if output is None else _output.described(output)
            print(
                f"wrote {part.shape[0]:,} {rows_axis} x {part.shape[1]:,} {columns_axis} "
                f"({part.nnz:,} non-zero) to {where}",
                file=sys.stderr if output is None else sys.stdout,
            )


def verify_command(options: argparse.Namespace) -> int:
    """Read everything, list what is wrong, and fail if something is."""
    findings = verify(options.path, progress=_show(options))
    errors_found = sum(finding.level == "error" for finding in findings)
    if options.format == "json":
        listed = [dataclasses.asdict(finding) for finding in findings]
        print(json.dumps({"path": options.path, "findings": listed}, indent=2))
    else:
        for finding in findings:
            print(finding)
        if not options.quiet:
            print(f"{options.path}: {_verdict(errors_found, len(findings) - errors_found)}")
    return 1 if errors_found else 0


def repair_command(options: argparse.Namespace) -> int:
    """Mend the container, say what was done, and fail if something is lost or damaged."""
    report = repair(options.path, progress=_show(options))
    is_there = Path(options.path.split("#/", 1)[0]).exists()  # or else only leftovers were
    rebuilt = rebuild_indexes(options.path) if is_there else []
    report = dataclasses.replace(report, done=(*report.done, *rebuilt))
    if options.format == "json":
        print(json.dumps({"path": options.path, **dataclasses.asdict(report)}, indent=2))
        return DONE if report.is_whole else DATA_LOST
    for action in report.done:
        print(action)
    for damage in report.lost:
        print(f"lost: {damage}")
    for damage in report.damaged:
        print(f"damaged, and left as it is: {damage}")
    for damage in report.indexes:
        print(f"could not be used: {damage}")
    if not report.is_whole:
        counted = (
            f"{len(listed):,} {word}"
            for listed, word in ((report.lost, "lost"), (report.damaged, "damaged"))
            if listed
        )
        print(
            f"{options.path}: {' and '.join(counted)}; take them from a backup, or write them again"
        )
    elif not options.quiet and not report.done:
        print(f"{options.path}: there is nothing to repair")
    return DONE if report.is_whole else DATA_LOST


def _verdict(n_errors: int, n_warnings: int) -> str:
    if not n_errors + n_warnings:
        return "everything is as it should be"
    counted = ((n_errors, "error"), (n_warnings, "warning"))
    return ", ".join(f"{n:,} {word}{'s' * (n != 1)}" for n, word in counted if n)


def serve_command(options: argparse.Namespace) -> None:
    """Serve a data set until interrupted."""
    with DafServer(
        options.path,
        port=options.port,
        host=options.host,
        host_names=options.host_name,
        allow_origin=options.allow_origin,
    ) as server:
        print(f"serving {options.path} at {server.url}; stop with Ctrl-C", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()


def demo_command(options: argparse.Namespace) -> None:
    """Run the demonstration."""
    run_demo(Path(options.target), options.run)


def matrix_axes(
    daf: DafReader, name: str, rows_axis: str | None, columns_axis: str | None
) -> tuple[str, str]:
    """Return the axes of a matrix of which only the name is known.

    Raises
    ------
    MatrixNotFoundError
        There is none of this name.
    InvalidInputError
        There are several, and the axes given do not tell which.
    """
    for axis in (rows_axis, columns_axis):
        if axis is not None and not daf.has_axis(axis):
            raise errors.axis_not_found(daf.location, axis, daf.axes_set())
    matrices = daf.summary().matrices
    pairs = {(m.info.rows_axis, m.info.columns_axis) for m in matrices if m.info.name == name}
    if not pairs:
        known = {m.info.name for m in matrices}
        has = errors.known_names(known, none="no matrices")
        raise errors.MatrixNotFoundError(
            f"{daf.location}: there is no matrix {name!r}; there are {has}"
            f"{errors.nearest(name, known)}"
        )
    given = {axis for axis in (rows_axis, columns_axis) if axis is not None}
    fitting = [pair for pair in pairs if given <= set(pair)]
    main = _main_axes(daf)
    if len(fitting) > 1 and set(main) in [set(pair) for pair in fitting]:
        fitting = [main]
    if len(fitting) != 1:
        listed = "; ".join(f"{rows} x {columns}" for rows, columns in sorted(pairs))
        raise errors.InvalidInputError(
            f"{daf.location}: matrix {name!r} exists for the axes {listed}; "
            "say which with --rows-axis and --columns-axis"
        )
    first, second = fitting[0]
    is_turned = rows_axis == second or columns_axis == first
    if not given and second == main[0]:
        is_turned = True
    return (second, first) if is_turned and first != second else (first, second)


def _main_axes(daf: DafReader) -> tuple[str, str]:
    """Return the axes that were obs and var when the data set was imported."""
    obs, var = (
        str(daf.get_scalar(key, default=default))
        for key, default in (("obs_is", "obs"), ("var_is", "var"))
    )
    return obs, var


def _show(options: argparse.Namespace) -> ShowProgress:
    return "never" if options.quiet else "auto"


def _print_report(report: Report) -> None:
    for item in report.items:
        print(f"  {item}")


def _size_bytes(path: str) -> int:
    container = Path(path.split("#/", 1)[0])
    if container.is_file():
        return container.stat().st_size
    return sum(
        (Path(parent) / name).stat().st_size
        for parent, _, names in os.walk(container)
        for name in names
    )
