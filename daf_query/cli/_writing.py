"""The commands that write: data sets made of others, changes of one, and what looks after it."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import time
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import daf_storage
from daf_query.cli import _options as shared
from daf_query.cli import _output as outputs
from daf_query.cli._later import display, index, session, storage_data, table, zarr_append
from daf_query.cli._options import command, given, grouped, option
from daf_query.cli._output import described, option_forms, report, size_bytes
from daf_storage import DafError, errors
from daf_storage._terminal_text import visible_name

if TYPE_CHECKING:
    from daf_query.session import DafSession
    from daf_storage import Packing, Report, SidecarStatus

_IMPORT_CHUNK_KB: Final = 64
_LEAST_MEMORY_BYTES: Final = 1 << 24
"""Also where other options of packing are given; as `import_h5ad` has it by default."""
_OBS: Final = ("obs", "cell")
_ALL: Final = ("*", ("*", "*"), ("*", "*", "*"))


@command(
    option("IN.h5ad", "or a .zarr, a .h5 of Cell Ranger, or a folder of its .mtx", dest="source"),
    option("OUT", "such as pbmc.daf.zarr or pbmc.daf.zarr.zip", dest="destination"),
    option("--obs-is AXIS", "name of the axis of obs (default: obs)"),
    option("--var-is AXIS", "name of the axis of var (default: var)"),
    option("--X-is NAME", "name of the main matrix (default: X)"),
    shared.one_layout("store matrices once, by obs, and not also by var"),
    shared.make_unique("append -1, -2 ... to names that occur twice"),
    shared.MEMORY,
    shared.STRICT,
    shared.overwrite("what is at OUT"),
    *shared.PACKING,
    shared.COUNTS_AS,
    *shared.REPORT,
)
def import_command(options: Namespace) -> None:
    r"""Convert an h5ad file, an AnnData in Zarr, or output of Cell Ranger into a Daf data set.

    Examples
    --------
    daf import pbmc.h5ad pbmc.daf.zarr.zip
    daf import filtered_feature_bc_matrix run.daf.zarr
    daf import monday.h5ad week.dafs.zarr.zip#/monday
    daf import pbmc.h5ad pbmc.daf.zarr --obs-is cell --var-is gene --X-is UMIs
    daf import pbmc.h5ad pbmc.daf.zarr --make-unique --overwrite
    daf import pbmc.h5ad pbmc.daf.zarr --one-layout --strict --quiet
    daf import pbmc.h5ad small.daf.zarr --codec blosc-zstd-shuffle --level 7 \
        --chunk-kb 128 --zarr-format 3 --overwrite
    """
    started = time.monotonic()
    _allow_memory(options)
    warnings.simplefilter("ignore", daf_storage.AnnDataWarning)  # the report lists them
    found = None
    how = {
        "packed": packing_of(options, chunk_kb=_IMPORT_CHUNK_KB),
        **given(options, "obs_is", "var_is", "X_is", "relayout"),
        **given(options, "if_exists", "zarr_format", "progress"),
    }
    if Path(options.source).is_dir() and not options.source.rstrip("/").endswith(".zarr"):
        is_unique = options.duplicates == "make_unique"
        if options.strict or is_unique or options.counts_as:
            raise errors.InvalidInputError(
                f"{options.source} is a folder, of which matrix.mtx is imported: "
                "--make-unique, --strict and --counts-as are for an AnnData; leave them out"
            )
        daf_storage.import_10x_mtx(options.source, options.destination, **how)
    else:
        of_anndata = {"counts_as": counts_of(options), **given(options, "duplicates", "strict")}
        found = daf_storage.import_h5ad(options.source, options.destination, **how, **of_anndata)
    with daf_storage.open_daf(options.destination) as daf:
        summary = daf.summary()
    lengths = " x ".join(f"{axis.length:,} {visible_name(axis.name)}" for axis in summary.axes[:2])
    vectors = sum(len(axis.vectors) for axis in summary.axes)
    matrices = f"{len(summary.matrices)} {'matrix' if len(summary.matrices) == 1 else 'matrices'}"
    holds = f"{lengths}; {len(summary.axes)} axes, {vectors} vectors, {matrices}, "
    done = f"imported {options.source} into {options.destination}"
    _say(options, done, options.destination, started, holds, found)


@command(
    shared.PATH,
    option("OUT", "an .h5ad file, or .h5mu for all modalities", dest="destination"),
    option("--obs-is AXIS", "the axis of obs (default: as imported)"),
    option("--var-is AXIS", "the axis of var (default: as imported)"),
    option("--X-is NAME", "the main matrix (default: as imported)"),
    shared.OVERLAY,
    shared.STRICT,
    shared.overwrite("what is at OUT"),
    *shared.REPORT,
)
def export_command(options: Namespace) -> None:
    """Export a whole data set to an h5ad or h5mu file, streaming its matrices.

    Examples
    --------
    daf export pbmc.daf.zarr pbmc.h5ad
    daf export cite.daf.zarr cite.h5mu
    daf export atlas.daf.zarr atlas.h5ad --obs-is cell --var-is gene --X-is UMIs
    daf export atlas.h5ad labelled.h5ad --overlay notes.daf.zarr
    daf export pbmc.daf.zarr pbmc.h5ad --strict --overwrite --quiet
    """
    warnings.simplefilter("ignore", daf_storage.AnnDataWarning)  # the report lists them
    if outputs.file_of(options.destination) is None:
        raise errors.InvalidInputError(
            f"{options.destination} is standard output, and not a file: name one, such as x.h5ad"
        )
    base = daf_storage.open_daf(options.path)
    layered = options.overlay is not None
    names = given(options, "obs_is", "var_is", "X_is")
    export: Callable[..., Report] = partial(daf_storage.export_h5ad, **names)
    if options.destination.endswith(".h5mu"):
        export = daf_storage.export_h5mu
        if names:
            raise errors.InvalidInputError(
                f"{options.destination}: the names of the axes say which modality they are of; "
                "leave --obs-is, --var-is and --X-is out"
            )
    with daf_storage.open_overlay(base, options.overlay, "r") if layered else base as daf:
        how = given(options, "strict", "if_exists", "progress")
        found = export(daf, options.destination, **how)
    notes = _notes(found)
    text = "\n  ".join([f"exported {options.path} to {described(options.destination)}", *notes])
    report(options, text, path=options.destination, notes=notes)


@command(
    option("SRC", dest="source"),
    option("DST", dest="destination"),
    shared.overwrite("what is at DST"),
    *shared.PACKING,
    shared.COUNTS_AS,
    option("--link", "between directories: share the files that are the same, by hard links"),
    shared.MEMORY,
    *shared.REPORT,
)
def convert_command(options: Namespace) -> None:
    r"""Copy a data set into the format given by the path, and compare the two.

    Examples
    --------
    daf convert pbmc.daf.zarr pbmc.daf.zarr.zip
    daf convert pbmc.daf.zarr.zip pbmc.h5df
    daf convert monday.daf.zarr week.dafs.zarr.zip#/monday
    daf convert atlas.daf.zarr small.daf.zarr --codec zstd --level 19 --chunk-kb 128 \
        --overwrite --quiet
    daf convert atlas.daf.zarr small.daf.zarr --packed --counts-as UMIs=uint16
    daf convert atlas.daf.zarr copy.daf.zarr --link
    """
    started = time.monotonic()
    _allow_memory(options)
    daf_storage.convert(
        options.source,
        options.destination,
        packed=packing_of(options),
        counts_as=counts_of(options),
        **given(options, "if_exists", "zarr_format", "link", "progress"),
    )
    size = f"{display.readable_bytes(size_bytes(options.destination))} on disk"
    seconds = time.monotonic() - started
    text = f"converted {options.source} to {options.destination} in {seconds:.1f} s, and compared "
    report(options, f"{text}the two; {size}", path=options.destination, seconds=seconds)


@command(
    option("PATH", "a data set, or a pattern", dest="sources", nargs="+"),
    option("-o, --output OUT", "such as all.daf.zarr", required=True),
    option("--axis AXIS", "axis whose entries are concatenated (default: obs)", action="append"),
    option(
        "--join",
        "entries of other axes: the same in all (the default), those of all, or of any",
        choices=("exact", "inner", "outer"),
        default="exact",
    ),
    option(
        "--fill-value NUMBER",
        "value of genes that a data set lacks (default: 0 or NaN)",
        type=float,
    ),
    option("--names A,B", "names of the data sets (default: those of the files)"),
    option("--prefix", "write the name of the data set before each entry"),
    shared.make_unique("append -1, -2 ... to entries that occur twice"),
    option("--dataset-axis NAME", "the axis of the data sets; '' for none", default="dataset"),
    option(
        "--merge [PROPERTY=]ACTION...",
        "what other properties become: skip, last, collect, or same, which is the default; of all, "
        "or of a SCALAR, AXIS/VECTOR or ROWS/COLUMNS/MATRIX, in which * is any",
    ),
    option("--empty PROPERTY=VALUE...", "a number or text for a property that one lacks"),
    shared.one_layout("store matrices once, by the axis"),
    shared.SKIP_BROKEN,
    shared.overwrite("what is at OUT"),
    *shared.PACKING,
    *shared.REPORT,
)
def concat_command(options: Namespace) -> None:
    r"""Put the entries of an axis of several data sets one after the other, in a new data set.

    Examples
    --------
    daf concat runs/*.h5ad -o all.daf.zarr
    daf concat runs/*.daf.zarr -o all.daf.zarr.zip --join outer --prefix
    daf concat a.h5df b.daf.zarr -o both.daf.zarr --names first,second --axis cell
    daf concat runs/*.daf.zarr -o all.daf.zarr --merge same --merge version=collect \
        --merge gene/mean=last --empty cell/donor=unknown --fill-value 0 --make-unique
    daf concat 'runs/*.daf.zarr' -o all.daf.zarr --dataset-axis run --one-layout
    """
    started = time.monotonic()
    empty = shared.named_values(options.empty, option="--empty", example="cell/donor=unknown") or {}
    named = [session.matching_paths(p) if session.is_pattern(p) else [p] for p in options.sources]
    paths = [path for each in named for path in each]
    # What is wrong with one of several says how to leave it out.
    skip_broken = options.skip_broken if options.skip_broken or len(paths) > 1 else None
    every, paths = paths, session.usable(paths, _checked, skip_broken=skip_broken)
    options.has_left_out = len(paths) < len(every)
    axes = options.axis or [_obs_axis(paths[0])]
    found = daf_storage.concatenate(
        options.output,
        axes,
        paths,
        names=None if options.names is None else [n.strip() for n in options.names.split(",")],
        dataset_axis=options.dataset_axis or None,
        empty={_key(name): value for name, value in empty.items()},
        merge=_merging(options.merge),
        packed=packing_of(options),
        **given(options, "prefix", "duplicates", "join", "fill_value", "relayout", "if_exists"),
        **given(options, "zarr_format", "progress"),
    )
    with daf_storage.open_daf(options.output) as daf:
        lengths = ", ".join(f"{daf.axis_length(axis):,} {visible_name(axis)}" for axis in axes)
    done = f"concatenated {len(paths):,} data set{'s' * (len(paths) > 1)} into {options.output}"
    _say(options, done, options.output, started, f"{lengths}; ", found)


def _checked(path: str) -> str:
    """Return the path of a data set that can be opened."""
    with warnings.catch_warnings(action="ignore"):  # which come again
        daf_storage.open_daf(path).close()
    return path


def _allow_memory(options: Namespace) -> None:
    """Let copies take as much memory as is given."""
    if options.memory_bytes is None:
        return
    if options.memory_bytes < _LEAST_MEMORY_BYTES:
        raise errors.InvalidInputError(
            f"--memory: {options.memory_bytes:,} bytes are not enough to work with; pass "
            f"{_LEAST_MEMORY_BYTES:,} (16 MiB) or more"
        )
    daf_storage.settings.DAF_COPY_MAX_BYTES = options.memory_bytes


def _say(
    options: Namespace, done: str, path: str, started: float, holds: str, found: Report | None
) -> None:
    """Say what was made, in which time and size, and what became of its parts."""
    seconds, size, notes = time.monotonic() - started, size_bytes(path), _notes(found)
    head = f"{done} in {seconds:.1f} s\n{holds}{display.readable_bytes(size)} on disk"
    text = "\n  ".join([head, *notes])
    report(options, text, path=path, seconds=seconds, bytes=size, notes=notes)


def _notes(found: Report | None) -> list[str]:
    return [option_forms(visible_name(item)) for item in found.items] if found else []


def packing_of(options: Namespace, **defaults: Any) -> bool | Packing:
    """Return how to pack; a codec, a level or a size of chunks alone asks for it, too."""
    chosen = given(options, "codec", "level", "chunk_kb")
    return daf_storage.Packing(**{**defaults, **chosen}) if options.packed or chosen else False


def counts_of(options: Namespace) -> Any:
    """Return the types of counts: one of the main matrix, or several by the names of matrices.

    >>> counts_of(Namespace(counts_as=["X=uint16", "spliced=uint8"]))
    {'X': 'uint16', 'spliced': 'uint8'}
    """
    given = options.counts_as
    if len(given) == 1 and "=" not in given[0]:
        return given[0]
    return shared.named_strings(given, option="--counts-as", example="X=uint16") or None


def _obs_axis(path: str) -> str:
    """Return the axis that an AnnData would have as obs."""
    with daf_storage.open_daf(path) as daf:
        axes = daf.axes_set()
        noted = daf.get_scalar("obs_is", default=None)
        for axis in (noted, *_OBS):
            if axis in axes:
                return str(axis)
    raise errors.InvalidInputError(
        f"{path}: it does not say which axis to concatenate; pass --axis, one of "
        f"{errors.shown_names(axes)}"
    )


def _merging(given: list[str]) -> list[tuple[Any, Any]]:
    """Return the properties and actions, in their order; first what is the default."""
    merging: list[tuple[Any, Any]] = [(key, "same") for key in _ALL]
    for each in given:
        name, separator, action = each.rpartition("=")
        if separator:
            merging.append((_key(name), action))
        else:
            merging += [(key, each) for key in (_ALL[:2] if each == "collect" else _ALL)]
    return merging


def _key(name: str) -> Any:
    """Return a property as `concatenate` names it.

    >>> _key("version"), _key("cell/age")
    ('version', ('cell', 'age'))
    """
    return tuple(name.split("/")) if "/" in name else name


STATISTICS: Final = ("sum", "mean", "variance", "min", "max", "nonzero", "missing", "fraction")
_NAME: Final = option("NAME")
_WRITTEN_OVERLAY: Final = option(
    "--overlay OVERLAY", "write into this one on top of PATH, which is only read"
)


@command(
    shared.PATH,
    shared.AXIS,
    _NAME,
    option("[QUERY]", "an expression, or a SELECT of name or index and a column; '-': stdin"),
    shared.QUERY_FILE,
    shared.PARAM,
    _WRITTEN_OVERLAY,
    shared.overwrite("the vector, if there is one"),
    *shared.REPORT,
    one_of=("query", "file"),
)
def save_vector_command(options: Namespace) -> None:
    r"""Store the value of a query for each entry of an axis as a vector.

    Examples
    --------
    daf save-vector pbmc.daf.zarr cell is_old "age > 60"
    daf save-vector pbmc.daf.zarr cell rank \
        "SELECT name, rank() OVER (PARTITION BY type ORDER BY age) FROM cell"
    daf save-vector pbmc.daf.zarr cell is_old 'age > $least' --param least=50 --overwrite
    daf save-vector pbmc.daf.zarr cell score -f score.sql --quiet
    daf save-vector atlas.h5ad obs is_old "age > 60" --overlay notes.daf.zarr
    """
    with _writing(options) as (connected, target):
        connected.save_vector(
            options.axis, options.name, shared.query_of(options), **_choice(options)
        )
    text = f"stored vector {options.name} of axis {options.axis} in {target}"
    report(options, text, path=target, axis=options.axis, vector=options.name)


@command(
    shared.PATH,
    shared.AXIS,
    option("[QUERY]", "a SELECT with a row for each entry of the new axis; '-': standard input"),
    shared.QUERY_FILE,
    option("--name COLUMN", "column with the names (default: name)", default="name"),
    shared.PARAM,
    _WRITTEN_OVERLAY,
    shared.overwrite("the axis, if there is one, with its vectors and matrices"),
    *shared.REPORT,
    one_of=("query", "file"),
)
def save_axis_command(options: Namespace) -> None:
    r"""Store the rows of a query as an axis with its vectors, in one step.

    Examples
    --------
    daf save-axis pbmc.daf.zarr type \
        "SELECT type AS name, count(*) AS n, avg(age) AS age FROM cell GROUP BY type"
    daf save-axis pbmc.daf.zarr donor "SELECT DISTINCT donor FROM cell" --name donor
    daf save-axis pbmc.daf.zarr type -f types.sql --param least=5 --overwrite --quiet
    """
    with _writing(options) as (connected, target):
        connected.save_axis(
            options.axis, shared.query_of(options), name=options.name, **_choice(options)
        )
        length = connected.reader().axis_length(options.axis)
    text = f"stored axis {options.axis} in {target}: {length:,} entries"
    report(options, text, path=target, axis=options.axis, entries=length)


def _choice(options: Namespace) -> dict[str, Any]:
    """Return the parameters of a query, and what becomes of what is there."""
    return {"params": shared.named_values(options.param), "if_exists": options.if_exists}


@command(
    shared.PATH,
    _NAME,
    option("[QUERY]", "a SELECT of an entry of either axis, and a value; '-': standard input"),
    shared.QUERY_FILE,
    option("--matrix MATRIX", "store a slice of this one instead"),
    option("--from OTHER", "the data set of MATRIX (default: PATH)", dest="source"),
    option("--by GROUPS", "store a row for each group of the rows", action="append"),
    option(
        "--statistic", "statistic of each group (default: mean)", choices=STATISTICS, default="mean"
    ),
    option("--rows WHICH", "of MATRIX, as for 'daf extract'"),
    option("--columns WHICH", "the same for the other axis"),
    option("--rows-axis AXIS", "of a slice, by default its own"),
    option("--columns-axis AXIS", "of a slice, by default its own"),
    option("--fill VALUE", "value of elements that are not given: JSON (0) or text"),
    shared.one_layout("store it once; by default also its transpose"),
    shared.PARAM,
    shared.overwrite("the matrix, if there is one"),
    *shared.REPORT,
    one_of=("query", "file", "matrix"),
)
def save_matrix_command(options: Namespace) -> None:
    r"""Store a slice of a matrix, means of groups, or the rows of a query, as a matrix.

    Examples
    --------
    daf save-matrix pbmc.daf.zarr part --matrix UMIs --rows 'donor = $who' \
        --columns is_marker --param who=N3 --one-layout --overwrite --quiet
    daf save-matrix pbmc.daf.zarr mean_X --matrix X --by louvain --statistic mean
    daf save-matrix pbmc.daf.zarr UMIs --from run2.daf.zarr --matrix counts \
        --rows-axis cell --columns-axis gene
    daf save-matrix pbmc.daf.zarr share --rows-axis type --columns-axis donor --fill 0 \
        "SELECT type, donor, avg(age) AS age FROM cell GROUP BY type, donor"
    """
    choice: dict[str, Any] = given(options, "relayout", "if_exists")
    choice["fill"] = shared.value_of(options.fill)
    requested = Namespace(**vars(options))
    if options.matrix is None:
        for name in given(options, "rows", "columns", "source", "by"):
            raise errors.InvalidInputError(
                f"--{name.replace('source', 'from')} is for a slice, which --matrix names; write a "
                "WHERE into the query"
            )
    elif options.by is not None:
        if options.source is not None:
            raise errors.InvalidInputError("--from is for a slice; groups are of PATH itself")
        choice["statistic"], requested.rows_axis = options.statistic, None  # of the new matrix
    elif options.source is not None:
        requested.path, requested.rows_axis, requested.columns_axis = options.source, None, None
    with contextlib.ExitStack() as stack:
        connected = source = stack.enter_context(session.connect(options.path, mode="r+"))
        if options.source is not None:
            source = stack.enter_context(session.connect(options.source))
        content: Any
        if options.matrix is None:
            content, choice["params"] = shared.query_of(options), shared.named_values(options.param)
        elif options.by is None:
            content = shared.slice_of(source, requested)
        else:
            of, chosen = shared.selected(source, requested)
            how = {**chosen, "by": options.by, "progress": options.progress}
            content = source.profile(*of, options.matrix, **how)
        own = session.own_axes(content)
        axes = options.rows_axis or own[0], options.columns_axis or own[1]
        connected.save_matrix(content, *axes, options.name, **choice)
    text = f"stored matrix {options.name} of axes {axes[0]} and {axes[1]} in {options.path}"
    report(options, text, path=options.path, axes=axes, matrix=options.name)


@command(
    option("PATH", "only read, if OVERLAY is given"),
    option("[OVERLAY]", "what is written, made if it is missing (default: PATH itself)"),
    option("--axis AXIS", required=True),
    option("--csv FILE", ".csv, .csv.gz, .tsv, .parquet or .arrow", dest="table", required=True),
    option("--key COLUMN", "the column that has the entries (default: name)"),
    option("--columns [NAME=]COLUMN,..", "which to store, and as what (default: all)"),
    option("--fill NAME=VALUE...", "the value of entries without one: JSON (0, false) or text"),
    option("--strict", "fail if a key is no entry, and write nothing"),
    shared.overwrite("vectors that are there"),
    *shared.REPORT,
)
def annotate_command(options: Namespace) -> None:
    r"""Store columns of a table as vectors, in a data set on top of one that is only read.

    Examples
    --------
    daf annotate atlas.h5ad notes.daf.zarr --axis obs --csv labels.csv --key barcode
    daf annotate atlas.daf.zarr notes.daf.zarr --axis cell --csv labels.parquet \
        --columns cell_type=label,score --overwrite --strict
    daf annotate pbmc.daf.zarr --axis cell --csv doublets.tsv --fill is_doublet=false
    daf sql atlas.h5ad --overlay notes.daf.zarr "SELECT cell_type, age FROM obs"
    """
    shared.check_table(options.table, "--csv")
    with _writing(options) as (connected, target):
        found = connected.annotate(
            options.axis,
            options.table,
            columns=_columns(options.columns),
            fill=shared.named_values(options.fill, option="--fill", example="n_genes=0"),
            **given(options, "key", "strict", "if_exists"),
        )
    report(options, f"stored in {target}: {found}", path=target, **found.to_dict())


@contextlib.contextmanager
def _writing(options: Namespace) -> Iterator[tuple[DafSession, str]]:
    """Connect the path of a command, or what is on top of it, for writing; yield which, too.

    A new data set is removed again if the block fails and has stored nothing.
    """
    is_alone = options.overlay is None
    target = options.path if is_alone else options.overlay
    access: dict[str, Any] = {"mode": "r+"} if is_alone else {"overlay": target}
    container = Path(target.partition("#/")[0])
    was_there = container.exists()
    try:
        with session.connect(options.path, **access) as connected:
            yield connected, target
    except BaseException:
        with contextlib.suppress(errors.DafError, OSError):  # what failed is the error to be seen
            if not was_there and container.exists() and not daf_storage.open_daf(target).axes_set():
                shutil.rmtree(container) if container.is_dir() else container.unlink()
        raise


def _columns(given: str | None) -> dict[str, str] | None:
    """Return the column of each vector.

    >>> _columns("cell_type=label,score")
    {'cell_type': 'label', 'score': 'score'}
    """
    if given is None:
        return None
    listed = [part.strip() for part in given.split(",") if part.strip()]
    pairs = [part if "=" in part else f"{part}={part}" for part in listed]
    return shared.named_strings(pairs, option="--columns", example="cell_type=label")


@command(
    shared.PATH,
    shared.AXIS,
    option("--by ORDER", "the order, as after ORDER BY in SQL", required=True),
    *shared.REPORT,
)
def reorder_command(options: Namespace) -> None:
    """Put the entries of an axis into another order; its vectors and matrices follow.

    Examples
    --------
    daf reorder pbmc.daf.zarr cell --by "type, age DESC"
    daf reorder pbmc.daf.zarr gene --by "name"
    """
    with session.connect(options.path, mode="r+") as connected:
        connected.reorder_axis(options.axis, options.by, progress=options.progress)
    text = f"reordered axis {options.axis} of {options.path} by {options.by}"
    report(options, text, path=options.path, axis=options.axis, by=options.by)


@command(shared.PATH, *shared.REPORT)
def verify_command(options: Namespace) -> int:
    """Read a whole data set and list what is wrong with it; exit code 1 if something is.

    Examples
    --------
    daf verify pbmc.daf.zarr.zip
    daf verify days.dafs.zarr.zip          # all data sets of an archive
    daf verify pbmc.daf.zarr --format json | jq '.findings[].path'
    """
    findings = daf_storage.verify(options.path, progress=options.progress)
    n_errors = sum(finding.level == "error" for finding in findings)
    counted = ((n_errors, "error"), (len(findings) - n_errors, "warning"))
    said = ", ".join(f"{n:,} {word}{'s' * (n != 1)}" for n, word in counted if n)
    text = f"{options.path}: {said or 'everything is as it should be'}"
    listed = [dataclasses.asdict(finding) for finding in findings]
    report(options, text, details=findings, path=options.path, findings=listed)
    return outputs.FAILED if n_errors else outputs.DONE


@command(shared.PATH, *shared.REPORT)
def repair_command(options: Namespace) -> int:
    """Repair what a crash or an interrupted copy left; exit code 3 if data is lost or damaged.

    Examples
    --------
    daf repair pbmc.daf.zarr.zip
    daf repair pbmc.daf.zarr && daf verify pbmc.daf.zarr
    daf repair pbmc.daf.zarr --format json | jq .lost
    """
    found = daf_storage.repair(options.path, progress=options.progress)
    is_there = Path(options.path.partition("#/")[0]).exists()  # or else only leftovers were
    rebuilt = index.rebuild_indexes(options.path) if is_there else []
    found = dataclasses.replace(found, done=(*found.done, *rebuilt))
    details = [
        *found.done,
        *(f"lost: {each}" for each in found.lost),
        *(f"damaged, and left as it is: {each}" for each in found.damaged),
        *(f"could not be used: {each}" for each in found.indexes),
    ]
    counted = ((found.lost, "lost"), (found.damaged, "damaged"))
    said = " and ".join(f"{len(listed):,} {word}" for listed, word in counted if listed)
    if said:
        details.append(f"{options.path}: {said}; take them from a backup, or write them again")
    text = "" if details else f"{options.path}: there is nothing to repair"
    report(options, text, details=details, path=options.path, **dataclasses.asdict(found))
    return outputs.DONE if found.is_whole else outputs.DATA_LOST


@command(
    shared.PATH,
    option("[AXIS]"),
    option(
        "VECTOR", "vectors to index; 'name' for the names of the entries", dest="vectors", nargs="*"
    ),
    option("--points", "two vectors of coordinates, together", metavar=("X", "Y"), nargs=2),
    grouped(
        "for a file that is read in place, such as atlas.h5ad",
        option("--matrix NAME...", "write its other layout, and decoded columns, into a sidecar"),
        option(
            "--into SIDECAR", "where to put the sidecar, a .daf.zarr (default: beside the file)"
        ),
        option("--max-bytes SIZE", "maximum size of the sidecar, such as 10GB"),
        option("--refresh", "update the sidecar after the file was changed or copied"),
        option("--remove", "delete the sidecar"),
    ),
    *shared.REPORT,
    any_of=("axis", "matrix", "refresh", "remove", "into"),
)
def index_command(options: Namespace) -> None:
    """Store an index that finds rows by name or by another value at once.

    For a file that is read in place, it can also store the other layout of a matrix.

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
    except errors.ReadOnlyError:
        with daf_storage.open_daf(options.path) as daf:
            if options.points is not None or not storage_data.is_in_place(daf):
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
            done = index.build_index(daf, options.axis, names, progress=options.progress)
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
            status = index.refreshed(daf, progress=options.progress)
        else:
            status = index.accelerated(
                daf,
                options.matrix,
                indexes={options.axis: options.vectors or None} if options.axis else {},
                path=options.into,
                max_bytes=options.max_bytes,
                progress=options.progress,
            )
    sidecar = None if status is None else dataclasses.asdict(status)
    text = text if status is None else sidecar_line(status)
    report(options, visible_name(text), path=options.path, sidecar=sidecar)


def sidecar_line(status: SidecarStatus) -> str:
    """Return where a sidecar is, how large, and what it has."""
    head = f"{status.path}, {status.size_bytes:,} bytes"
    if not status.is_used:
        return f"{head}, not used: {status.problem}"
    parts = [path for path in status.properties if path.startswith("matrices/")]
    vectors = sum(path.startswith("vectors/") for path in status.properties)
    if vectors:
        parts.append(f"{vectors:,} column{'s' * (vectors > 1)}")
    parts += [f"index of {name}" for name in status.indexes]
    return f"{head}: {', '.join(parts) or 'the entries of axes'}"
