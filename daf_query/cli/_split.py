"""The command `split`."""

from __future__ import annotations

import argparse

from daf_query.cli._query_text import named_values
from daf_query.session import connect
from daf_storage import errors
from daf_storage.spi import visible_name


def split_command(options: argparse.Namespace) -> None:
    """Write chosen entries with their splits and weights, and say how many there are."""
    shares = dict(options.share)
    if len(shares) < len(options.share):
        raise errors.InvalidInputError("--share names a split twice; give each once")
    with connect(options.path, mode="r", overlay=options.overlay) as session:
        sampler = session.sampler(
            options.axis,
            where=options.where,
            weights=options.weights,
            split=shares or None,
            seed=options.seed,
            stratify=options.stratify,
            groups=options.groups,
            params=named_values(options.param),
        )
        sampler.save(options.output)
    if not options.quiet:
        sizes = ", ".join(f"{visible_name(name)} {size:,}" for name, size in sampler.sizes.items())
        what = f"{len(sampler):,} of {sampler.axis_length:,} entries of {sampler.axis}"
        print(f"{options.output}: {what}{': ' if sizes else ''}{sizes}")
