"""Samplers: entries of an axis with weights and splits, for a training loop."""

from __future__ import annotations

from pathlib import Path

from daf_query.session._connected import Connected
from daf_query.slice import Selector
from daf_query.sql import Params, bind_all
from daf_query.training import (
    Expressions,
    IfChanged,
    Sampler,
    SamplerRequest,
    Shares,
    load_sampler,
    make_sampler,
)


class Training(Connected):
    """The part of a session that is about training."""

    def sampler(  # noqa: PLR0913 - what is chosen, and how it is split
        self,
        axis: str,
        *,
        where: Selector = None,
        weights: str | None = None,
        split: Shares | None = None,
        seed: int = 0,
        stratify: Expressions | None = None,
        groups: Expressions | None = None,
        params: Params | None = None,
        schema: str | None = None,
    ) -> Sampler:
        """Choose entries of an axis, with weights and splits, for a training loop.

        The same data and the same seed make the same sampler, in every format and with any number
        of threads: splits go by hashes of the names of the entries.  If ``where`` changes, nearly
        all entries keep their split, unless there are groups.

        Parameters
        ----------
        where
            Which entries; all by default.  As ``rows=`` of `matrix`: a SQL predicate, a SELECT,
            names, positions or a mask.  Each counts once.
        weights
            An expression of SQL, evaluated over the chosen entries alone, as its window functions
            are.  Divisions are those of real numbers.
        split
            The share of each split by its name; together 1.
        seed
            Another integer makes other splits.
        stratify
            A vector, an expression, or several: each split keeps its share of every combination
            of their values, to within one entry.  NULL is a value.  With groups, as near as these
            allow.
        groups
            A vector, an expression, or several, such as the donor: entries with the same values
            are in one split.  The sizes come as near to the shares as moving or swapping groups
            brings them.
        params
            Values for the parameters of all of these, as for `sql`.
        schema
            Which data set, where several are connected.

        Returns
        -------
        Sampler
            A frozen value with ``indices``, ``weights``, ``names`` and ``splits``.

        Raises
        ------
        InvalidInputError
            The shares do not add up; a weight is missing, negative or infinite; a split would be
            empty; an entry has no group; or nothing is chosen.
        QueryError, NotFoundError
            A predicate or an expression is wrong; an axis, entry or column is unknown.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C", "D"])
        >>> daf.set_vector("cell", "donor", ["N1", "N1", "N2", "N2"])
        >>> sampler = connect(daf).sampler("cell", split={"train": 0.5, "val": 0.5}, groups="donor")
        >>> sampler.sizes, sampler["val"].names.to_pylist()
        ({'train': 2, 'val': 2}, ['A', 'B'])
        """
        written = [
            where if isinstance(where, str) else "",
            weights if isinstance(weights, str) else "",
            *_listed(stratify),
            *_listed(groups),
        ]
        bound = bind_all(written, params)
        strata_stop = 2 + len(_listed(stratify))
        request = SamplerRequest(
            axis,
            bound[0] if isinstance(where, str) else where,
            bound[1] if isinstance(weights, str) else weights,
            split,
            seed,
            bound[2:strata_stop] if _listed(stratify) else stratify,
            bound[strata_stop:] if _listed(groups) else groups,
        )
        return make_sampler(self._engine, schema, request)

    def load_sampler(
        self, path: str | Path, *, if_changed: IfChanged = "error", schema: str | None = None
    ) -> Sampler:
        """Read a sampler that `Sampler.save` wrote, and compare it with the data.

        It is made again as it was asked for, which has to give the same entries at the same
        positions, the same weights and the same splits.

        Parameters
        ----------
        path
            A ``.parquet`` or ``.arrow`` file.
        if_changed
            ``keep`` takes entries, splits and weights as they were saved instead, and finds the
            entries by their names: so a split survives new entries, and another order.
        schema
            Which data set, where several are connected.

        Raises
        ------
        SourceNotFoundError
            There is no such file.
        InvalidInputError
            It is no file of a sampler; or the data would make another one today.
        EntryNotFoundError
            An entry is not there any more.
        CorruptDataError
            The file is damaged.

        Examples
        --------
        >>> import daf_storage, os, tempfile
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C", "D"])
        >>> db = connect(daf)
        >>> path = os.path.join(tempfile.mkdtemp(), "split.parquet")
        >>> db.sampler("cell", split={"train": 0.75, "val": 0.25}).save(path)
        >>> db.load_sampler(path)
        Sampler('cell', 4 of 4 entries: train 3, val 1)
        """
        return load_sampler(self._engine, schema, Path(path), if_changed)


def _listed(expressions: Expressions | None) -> list[str]:
    """Return expressions that are SQL, to have values put in place of their parameters."""
    if isinstance(expressions, str):
        return [expressions]
    if isinstance(expressions, list | tuple) and all(isinstance(e, str) for e in expressions):
        return list(expressions)
    return []
