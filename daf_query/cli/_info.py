"""The command `info`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from daf_query.cli._sidecar_status import as_dict, described_sidecar
from daf_storage import DafReader, errors, open_daf, open_overlay, spi
from daf_storage.spi import lazy_module, visible, visible_name

if TYPE_CHECKING:
    from daf_query import session
    from daf_query.cli import _output as table_output
else:
    table_output = lazy_module("daf_query.cli._output")
    session = lazy_module("daf_query.session")  # the engine, which one data set does without

_VALUES_BYTES: Final = 256 << 20
_VALUES_SECONDS: Final = 10.0
"""What `--values` may take; larger vectors are sampled."""


def info_command(options: argparse.Namespace) -> None:
    """Print what a data set holds."""
    if any(character in options.path for character in "*?[") and session.is_pattern(options.path):
        _describe_all(options)
        return
    base = open_daf(options.path, obs_is=options.obs_is, var_is=options.var_is)
    with base if options.overlay is None else open_overlay(base, options.overlay, "r") as daf:
        if options.diagram:
            print(visible(daf.diagram()))
        elif options.format == "json":
            print(json.dumps({**daf.summary().as_dict(), **as_dict(base)}, indent=2))
        else:
            print(visible(daf.description() + described_sidecar(base)))
            if options.values:
                print(*_value_lines(daf), sep="\n")


def _value_lines(daf: DafReader) -> Iterator[str]:
    """Yield what values look like, within a budget of bytes and of time."""
    budget = spi.PreviewBudget(_VALUES_BYTES, _VALUES_SECONDS)
    for axis in daf.summary().axes:
        rows = [
            [vector.name, *spi.preview_text(preview)]
            for vector, preview in spi.vector_previews(axis.vectors, daf, budget)
        ]
        if rows:
            _, _, *lines = table_output.aligned([""] * 4, rows, [False] * 4)
            yield f"\nvalues of {visible_name(axis.name)}"
            yield from (f"  {line}" for line in lines)


def _describe_all(options: argparse.Namespace) -> None:
    """Print what each of several data sets holds."""
    if options.diagram or options.values or options.overlay is not None:
        given = {"--diagram": options.diagram, "--values": options.values}
        option = next((name for name, is_given in given.items() if is_given), "--overlay")
        raise errors.InvalidInputError(
            f"{options.path!r} means several data sets, and {option} is for one; name one of them"
        )
    names = session.axis_names(options.obs_is, options.var_is)
    described = {}
    with session.connect(options.path, mode="r", **names) as connected:
        for name, daf in connected.members().items():
            listed = options.format == "json"
            described[name] = (
                {**daf.summary().as_dict(), **as_dict(daf)}
                if listed
                else daf.description() + described_sidecar(daf)
            )
    if options.format == "json":
        print(json.dumps({"path": options.path, "data_sets": described}, indent=2))
        return
    print(f"{options.path}: {len(described):,} data sets")
    for name, text in described.items():
        print(visible(f"\n{visible_name(name)}\n{text}"))
