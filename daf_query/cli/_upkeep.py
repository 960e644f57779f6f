"""The commands that look after what is stored: `verify`, `repair`, `index`, `provenance`."""

from __future__ import annotations

import dataclasses
import sys
import warnings
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

import daf_storage
from daf_query.cli._later import index, provenance, table, zarr_append
from daf_query.cli._output import DATA_LOST, DONE, FAILED, print_json, progress_of, report
from daf_query.cli._parser import PATH, REPORT, byte_size, command, grouped, option
from daf_storage import DafError, errors
from daf_storage._terminal_text import visible_name

if TYPE_CHECKING:
    from daf_storage import SidecarStatus


@command(
    PATH,
    *REPORT,
)
def verify_command(options: Namespace) -> int:
    """Read a whole data set and list what is wrong with it; exit code 1 if something is.

    Examples
    --------
    daf verify pbmc.daf.zarr.zip
    daf verify days.dafs.zarr.zip          # all data sets of an archive
    daf verify pbmc.daf.zarr --format json | jq '.findings[].path'
    """
    findings = daf_storage.verify(options.path, progress=progress_of(options))
    n_errors = sum(finding.level == "error" for finding in findings)
    if options.format == "json":
        listed = [dataclasses.asdict(finding) for finding in findings]
        print_json({"path": options.path, "findings": listed})
    else:
        for finding in findings:
            print(visible_name(finding))
        if not options.quiet:
            counted = ((n_errors, "error"), (len(findings) - n_errors, "warning"))
            said = ", ".join(f"{n:,} {word}{'s' * (n != 1)}" for n, word in counted if n)
            print(f"{options.path}: {said or 'everything is as it should be'}")
    return FAILED if n_errors else DONE


@command(
    PATH,
    *REPORT,
)
def repair_command(options: Namespace) -> int:
    """Mend what a crash or an interrupted copy left; exit code 3 if data is lost or damaged.

    Examples
    --------
    daf repair pbmc.daf.zarr.zip
    daf repair pbmc.daf.zarr && daf verify pbmc.daf.zarr
    daf repair pbmc.daf.zarr --format json | jq .lost
    """
    report = daf_storage.repair(options.path, progress=progress_of(options))
    is_there = Path(options.path.split("#/", 1)[0]).exists()  # or else only leftovers were
    rebuilt = index.rebuild_indexes(options.path) if is_there else []
    report = dataclasses.replace(report, done=(*report.done, *rebuilt))
    code = DONE if report.is_whole else DATA_LOST
    if options.format == "json":
        print_json({"path": options.path, **dataclasses.asdict(report)})
        return code
    for heading, listed in (
        ("", report.done),
        ("lost: ", report.lost),
        ("damaged, and left as it is: ", report.damaged),
        ("could not be used: ", report.indexes),
    ):
        for each in listed:
            print(visible_name(f"{heading}{each}"))
    if not report.is_whole:
        counted = ((report.lost, "lost"), (report.damaged, "damaged"))
        said = " and ".join(f"{len(listed):,} {word}" for listed, word in counted if listed)
        print(f"{options.path}: {said}; take them from a backup, or write them again")
    elif not options.quiet and not report.done:
        print(f"{options.path}: there is nothing to repair")
    return code


@command(
    PATH,
    option("[AXIS]"),
    option("VECTOR", "'name' for the entries", dest="vectors", nargs="*"),
    option("--points", "two vectors of coordinates, together", metavar=("X", "Y"), nargs=2),
    grouped(
        "of a file that is read in place, such as atlas.h5ad",
        option("--matrix NAME...", "write its other layout, and decoded columns, into a sidecar"),
        option("--into SIDECAR", "a name ending in .daf.zarr, instead of beside the file"),
        option("--max-bytes SIZE", "how large it may become, such as 10GB", type=byte_size),
        option("--refresh", "make the sidecar fit the file as it is now"),
        option("--remove", "delete the sidecar"),
    ),
    *REPORT,
    any_of=("axis", "matrix", "refresh", "remove", "into"),
)
def index_command(options: Namespace) -> None:
    """Store an index with which rows are found by name or by another value at once.

    Of a file that is read in place, also the other layout of a matrix.

    Examples
    --------
    daf index pbmc.daf.zarr cell              # the names, and strings with many values
    daf index pbmc.daf.zarr cell barcode age
    daf index slide.daf.zarr cell --points x y   # cells within a box or a polygon
    daf index scenes.zarr meta bbox           # geometries of a group of Zarr arrays
    daf index atlas.h5ad --matrix X           # writes atlas.h5ad.daf.zarr beside it
    daf index atlas.h5ad obs barcode --matrix X --max-bytes 10GB
    daf index /shared/atlas.h5ad --matrix X --into mine.daf.zarr
    daf index atlas.h5ad --refresh            # it was copied, or changed
    daf index atlas.h5ad --remove
    """
    if options.matrix or options.refresh or options.remove or options.into is not None:
        _sidecar(options)
        return
    try:
        opened = daf_storage.open_daf(options.path, "r+")
    except errors.ReadOnlyError:  # it is read in place
        if options.points is not None:
            raise
        _sidecar(options)
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
            done = index.build_index(daf, options.axis, names, progress=progress_of(options))
        if options.points is not None:
            index.build_point_index(daf, options.axis, *options.points)
            done.append(f"the points ({', '.join(options.points)})")
    listed = ", ".join(done) or "nothing: no string vector has many distinct values"
    text = f"indexed {listed} of axis {options.axis} of {options.path}"
    report(options, visible_name(text), path=options.path, axis=options.axis, indexed=done)


def _index_table(options: Namespace) -> None:
    """Build the R-trees of a group of Zarr arrays."""
    for column in options.vectors or [table.GEOMETRY]:
        count = zarr_append.build_spatial_index(options.path, column, options.axis)
        text = f"indexed {column} of {count:,} rows of {options.axis} of {options.path}"
        report(options, text, path=options.path, table=options.axis, indexed=[column], rows=count)


def _sidecar(options: Namespace) -> None:
    """Write, refresh or remove the sidecar of a file that is read in place."""
    if options.refresh or options.remove:  # the remedies that the warning names
        warnings.simplefilter("ignore", daf_storage.SidecarWarning)
    status = None
    with daf_storage.open_daf(options.path, sidecar=options.into) as daf:
        if options.remove:
            said = "removed" if daf_storage.remove_sidecar(daf) else "there was none"
            text = f"the sidecar of {options.path}: {said}"
        elif options.refresh:
            status = index.refreshed(daf, progress=progress_of(options))
        else:
            status = index.accelerated(
                daf,
                options.matrix,
                indexes={options.axis: options.vectors or None} if options.axis else {},
                path=options.into,
                max_bytes=options.max_bytes,
                progress=progress_of(options),
            )
    record = {"sidecar": None} if status is None else {"sidecar": dataclasses.asdict(status)}
    text = text if status is None else sidecar_line(status)
    report(options, visible_name(text), path=options.path, **record)


def sidecar_line(status: SidecarStatus) -> str:
    """Return where a sidecar is, how large, and what it has."""
    head = f"{status.path}, {status.size_bytes:,} bytes"
    if not status.is_used:
        return f"{head}, not used: {status.problem}"
    parts = [path for path in status.properties if path.startswith("matrices/")]
    vectors = sum(path.startswith("vectors/") for path in status.properties)
    if vectors:
        parts.append(f"{vectors:,} columns")
    parts += [f"index of {name}" for name in status.indexes]
    return f"{head}: {', '.join(parts) or 'the entries of axes'}"


@command(
    option("FILE", "an .h5ad, .zarr, Parquet or Arrow file", dest="path"),
    option("--format", "what it prints", choices=("json",), default="json"),
)
def provenance_command(options: Namespace) -> int:
    """Print which query, data sets and packages a file was made of.

    Examples
    --------
    daf provenance markers.h5ad
    daf provenance old.parquet | jq -r .sql
    """
    record = provenance.provenance(options.path)
    if record is None:
        print(f"daf: error: {options.path} does not say where it comes from", file=sys.stderr)
        return FAILED
    print_json(record, ensure_ascii=False)
    return DONE
