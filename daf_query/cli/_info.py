"""The command `info`."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from daf_query.cli._sidecar_status import as_dict, described_sidecar
from daf_storage import errors, open_daf, open_overlay
from daf_storage.spi import lazy_module

if TYPE_CHECKING:
    from daf_query import session
else:
    session = lazy_module("daf_query.session")  # the engine, which one data set does without


def info_command(options: argparse.Namespace) -> None:
    """Print what a data set holds."""
    if any(character in options.path for character in "*?[") and session.is_pattern(options.path):
        _describe_all(options)
        return
    base = open_daf(options.path, obs_is=options.obs_is, var_is=options.var_is)
    with base if options.overlay is None else open_overlay(base, options.overlay, "r") as daf:
        if options.diagram:
            print(daf.diagram())
        elif options.format == "json":
            print(json.dumps({**daf.summary().as_dict(), **as_dict(base)}, indent=2))
        else:
            print(daf.description() + described_sidecar(base))


def _describe_all(options: argparse.Namespace) -> None:
    """Print what each of several data sets holds."""
    if options.diagram or options.overlay is not None:
        option = "--diagram" if options.diagram else "--overlay"
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
        print(f"\n{name}\n{text}")
