"""The commands that make data sets of others: `import`, `export`, `convert`, `concat`."""

from __future__ import annotations

import time
import warnings
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import daf_storage
from daf_query.cli import _options as shared
from daf_query.cli._later import display, session
from daf_query.cli._options import command, given, option
from daf_query.cli._output import described, option_forms, report, size_bytes
from daf_storage import errors
from daf_storage._terminal_text import visible_name

if TYPE_CHECKING:
    from daf_storage import Packing, Report

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
    if options.skip_broken:
        every, paths = paths, session.usable(paths, _checked, skip_broken=True)
        options.has_left_out = len(paths) < len(every)
    try:
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
    except errors.DafError:
        if len(paths) > 1:  # if one of them cannot be opened, that error says how to leave it out
            session.usable(paths, _checked, skip_broken=False)
        raise
    with daf_storage.open_daf(options.output) as daf:
        lengths = ", ".join(f"{daf.axis_length(axis):,} {visible_name(axis)}" for axis in axes)
    done = f"concatenated {len(paths):,} data set{'s' * (len(paths) > 1)} into {options.output}"
    _say(options, done, options.output, started, f"{lengths}; ", found)


def _checked(path: str) -> str:
    """Return the path of a data set that can be opened."""
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
    pairs = [(name, kind) for name, _, kind in (w.rpartition("=") for w in options.counts_as)]
    if len(pairs) == 1 and not pairs[0][0]:
        return pairs[0][1]
    if any(not name for name, _ in pairs):
        raise errors.InvalidInputError(
            "--counts-as: of several types, each needs the name of its matrix, such as X=uint16"
        )
    return dict(pairs) or None


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
        if "=" in each:
            [(name, action)] = (
                shared.named_values([each], option="--merge", example="gene/means=last") or {}
            ).items()
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
