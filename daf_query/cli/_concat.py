"""The command `concat`: several data sets become one."""

from __future__ import annotations

import argparse
import glob
import json
import time
from pathlib import Path
from typing import Any, Final

from daf_query.cli._option_names import option_forms
from daf_query.cli._packing import packing_of
from daf_query.cli._summary import progress_of, size_bytes
from daf_storage import concatenate, errors, open_daf
from daf_storage.spi import readable_bytes, visible, visible_name

_OBS: Final = ("obs", "cell")
_ALL: Final = ("*", ("*", "*"), ("*", "*", "*"))


def concat_command(options: argparse.Namespace) -> None:
    """Concatenate data sets, and say what became of them."""
    started = time.monotonic()
    paths = _matching(options.sources)
    axes = options.axis or [_obs_axis(paths[0])]
    report = concatenate(
        options.output,
        axes,
        paths,
        names=None if options.names is None else _listed(options.names),
        dataset_axis=options.dataset_axis or None,
        prefix=options.prefix,
        duplicates="make_unique" if options.make_unique else "error",
        join=options.join,
        fill_value=options.fill_value,
        empty=dict(_pair(given, "--empty") for given in options.empty),
        merge=_merging(options.merge),
        relayout=not options.one_layout,
        if_exists="replace" if options.overwrite else "error",
        zarr_format=options.zarr_format,
        packed=packing_of(options),
        progress=progress_of(options),
    )
    if options.quiet:
        return
    seconds = time.monotonic() - started
    with open_daf(options.output) as daf:
        lengths = ", ".join(f"{daf.axis_length(axis):,} {visible_name(axis)}" for axis in axes)
    size = readable_bytes(size_bytes(options.output))
    head = f"concatenated {len(paths):,} data sets into {options.output} in {seconds:.1f} s"
    print(visible(f"{head}\n{lengths}; {size} on disk"))
    for item in report.items:
        print(f"  {option_forms(visible_name(item))}")


def _matching(given: list[str]) -> list[str]:
    """Return paths, and those that patterns stand for."""
    paths: list[str] = []
    for path in given:
        if not glob.has_magic(path) or Path(path).exists():
            paths.append(path)
            continue
        matching = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 - it may be absolute
        if not matching:
            raise errors.SourceNotFoundError(f"no file or directory matches {path!r}")
        paths += matching
    return paths


def _obs_axis(path: str) -> str:
    """Return the axis that an AnnData would have as obs."""
    with open_daf(path) as daf:
        axes = daf.axes_set()
        noted = daf.get_scalar("obs_is", default=None)
        for axis in (noted, *_OBS):
            if axis in axes:
                return str(axis)
    raise errors.InvalidInputError(
        f"{path}: it does not say which axis to concatenate; pass --axis, one of "
        f"{errors.known_names(axes, none='none')}"
    )


def _merging(given: list[str]) -> list[tuple[Any, Any]]:
    """Return the properties and actions, in their order; first what is the default."""
    merging: list[tuple[Any, Any]] = [(key, "same") for key in _ALL]
    for each in given:
        if "=" in each:
            key, action = _key_and_text(each, "--merge")
            merging.append((key, action))
        else:
            keys = _ALL[:2] if each == "collect" else _ALL
            merging += [(key, each) for key in keys]
    return merging


def _pair(given: str, option: str) -> tuple[Any, Any]:
    """Return a property and a value, which is a number if it looks like one.

    >>> _pair("cell/age=3", "--empty"), _pair("cell/type=T cell", "--empty")
    ((('cell', 'age'), 3), (('cell', 'type'), 'T cell'))
    """
    key, text = _key_and_text(given, option)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # no JSON, or a list of lists of lists, which is no number
        return key, text
    return key, value if isinstance(value, bool | int | float | str) else text


def _key_and_text(given: str, option: str) -> tuple[Any, str]:
    name, separator, text = given.partition("=")
    if not separator or not name:
        raise errors.InvalidInputError(
            f"{option} {given!r} is no PROPERTY=VALUE, such as cell/donor=unknown"
        )
    parts = tuple(name.split("/"))
    return (parts[0] if len(parts) == 1 else parts), text


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]
