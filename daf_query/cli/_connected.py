"""The data set that a command reads, with what is on top of it."""

from __future__ import annotations

import argparse

from daf_query.session import DafSession, connect


def reading(options: argparse.Namespace) -> DafSession:
    """Connect the path of a command for reading, with the overlay if one is given."""
    return connect(
        options.path,
        mode="r",
        overlay=options.overlay,
        obs_is=getattr(options, "obs_is", None),
        var_is=getattr(options, "var_is", None),
        provenance=not options.no_provenance,
    )
