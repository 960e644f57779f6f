"""The options ``--layers``, ``--obsm`` and so on: what an h5ad file of a slice has beside ``X``."""

from __future__ import annotations

import argparse

from daf_query.slice import AnnDataChoice, Choice


def anndata_choice(options: argparse.Namespace) -> AnnDataChoice:
    """Return what the options choose; without those that are not given."""
    choice: AnnDataChoice = {}
    if options.layers is not None:
        choice["layers"] = chosen_keys(options.layers)
    if options.obsm is not None:
        choice["obsm"] = chosen_keys(options.obsm)
    if options.varm is not None:
        choice["varm"] = chosen_keys(options.varm)
    if options.obsp is not None:
        choice["obsp"] = chosen_keys(options.obsp)
    if options.varp is not None:
        choice["varp"] = chosen_keys(options.varp)
    return choice


def chosen_keys(listed: str) -> Choice:
    """Return the keys of a comma list, or whether all or none are chosen.

    >>> chosen_keys("counts, spliced"), chosen_keys("all"), chosen_keys("none"), chosen_keys("all,")
    (['counts', 'spliced'], True, False, ['all'])
    """
    if listed in ("all", "none"):
        return listed == "all"
    return [key for key in map(str.strip, listed.split(",")) if key]
