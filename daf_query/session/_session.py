"""Sessions: connect data sets, and ask SQL questions."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

import numpy.typing as npt
import pyarrow as pa

from daf_query.scan import DEFAULT_OPTIONS, ScanOptions, show_pandas_for
from daf_query.session._later import engines, plots, slices, stored, syntax, tables
from daf_query.session._matrices import MatrixQuestions
from daf_query.session._queries import CACHE_BYTES
from daf_query.session._sources import (
    Frame,
    Mode,
    Source,
    is_pattern,
    opened,
    opened_overlay,
    schema_name,
)
from daf_query.session._writing import Writing
from daf_storage import DafReader, DafWriter, Relation, errors
from daf_storage._lazy import pc
from daf_storage._terminal_text import visible_name
from daf_storage.data import data_set_section
from daf_storage.display import (
    Markup,
    PreviewBudget,
    html_details,
    html_element,
    html_page,
    html_table,
    joined_html,
    shortened,
)

_MEMBERS: Final = 20


class DafSession(MatrixQuestions, Writing):
    """Data sets that are connected, each a SQL schema; `connect` makes one.

    May be used from several threads.  Closing it closes nothing that it handed out.
    """

    @property
    def cached_bytes(self) -> int:
        """How much is remembered of what was decoded."""
        return self._connections.cache.nbytes

    def __repr__(self) -> str:
        return f"DafSession({', '.join(map(visible_name, self._connections.schemas))})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the data sets; arrays and slices handed out earlier stay valid."""
        self._connections.close()

    @property
    def context(self) -> engines.SessionContext:
        """The DataFusion session, for what this class does not offer.  It may write."""
        engines.ENGINE.enter()
        return self._engine.context

    @property
    def schemas(self) -> dict[str, DafReader]:
        """The data sets by schema name; several that are asked as one are not among them."""
        return self._connections.readers()

    def tables(self) -> list[str]:
        """Return the names of the tables, as queries write them.

        Examples
        --------
        >>> import daf_query, daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["TATA", "GATA", "CATA"], vectors={"age": [30, 60, 90]})
        >>> db = daf_query.connect(daf)
        >>> db.tables()
        ['cell', 'matrices', 'relations', 'scalars']
        """
        return self._connections.table_names

    def relations(self, schema: str | None = None) -> list[Relation]:
        """Return the vectors whose values are entries of an axis; the table ``relations`` has them.

        In a collection, those of all data sets, each once.

        Parameters
        ----------
        schema
            Which data set, where several are connected.

        Examples
        --------
        >>> import daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("type", ["B", "T"])
        >>> daf.add_axis("cell", ["TATA", "GATA"])
        >>> daf.set_vector("cell", "type", ["T", "T"])
        >>> connect(daf).relations()
        [Relation(axis='cell', vector='type', to_axis='type', source='name')]
        """
        readers = self._connections.schema(schema).readers().values()
        return sorted({relation for daf in readers for relation in daf.relations()})

    @property
    def plot(self) -> plots.SessionPlots:
        """Plots: embeddings; they need the extra ``plot``."""
        return plots.SessionPlots(self._engine)

    def register(self, source: Source | Frame, name: str | None = None) -> None:
        """Connect another data set, as a schema, or a table of your own.

        Parameters
        ----------
        source
            A path or a reader of a data set; a pattern of paths or a list, for several as one
            (see `connect`); a path of a Zarr group or a table, such as `zarr_table` makes; a data
            frame of pandas or polars, a DuckDB relation, an Arrow table, dataset or stream; a
            Parquet, Arrow, CSV or TSV file (also ``.csv.gz``).
        name
            The schema or table name; by default that of the file, or of the table.  A frame
            needs one.

        Raises
        ------
        ExistsError
            Something is connected by this name, or an axis has it.
        SourceNotFoundError, CorruptDataError
            There is no such file, or it is not what its suffix says.

        Examples
        --------
        >>> import daf_storage
        >>> session = connect(daf_storage.MemoryDaf(name="one"))
        >>> other = daf_storage.MemoryDaf(name="two")
        >>> other.add_axis("donor", ["N1", "N2"])
        >>> session.register(other, "other")
        >>> session.sql("SELECT count(*) AS n FROM other.donor").to_pydict()
        {'n': [2]}

        >>> import pandas
        >>> session.register(pandas.DataFrame({"id": ["N1"], "centre": ["Basel"]}), "samples")
        >>> session.sql(
        ...     "SELECT name, centre FROM other.donor JOIN samples ON name = samples.id"
        ... ).to_pydict()
        {'name': ['N1'], 'centre': ['Basel']}
        """
        with ExitStack() as closing:
            connected = opened(source, closing)
            title = schema_name(source, connected) if name is None else name
            self._connections.connect(title, connected)
            closing.pop_all()

    def unregister(self, name: str) -> None:
        """Let go of a data set or a table; what was opened for it is closed."""
        self._connections.disconnect(name)

    def _repr_html_(self) -> str:
        return _session_page(self._connections)


def connect(  # noqa: PLR0913 - how data sets are opened, and how they are asked
    source: Source | Mapping[str, Source | Frame],
    *,
    mode: Mode | None = None,
    overlay: str | Path | DafWriter | None = None,
    obs_is: str | None = None,
    var_is: str | None = None,
    cache_bytes: int = CACHE_BYTES,
    scan_options: ScanOptions = DEFAULT_OPTIONS,
    categoricals: tables.Categoricals = "string",
    provenance: bool = True,
    skip_broken: bool = False,
) -> DafSession:
    """Open one data set or several for SQL.

    Parameters
    ----------
    source
        A path, a reader, or a mapping of schema names to either.  The schema of a path is its
        file name without suffixes: ``data/pbmc.daf.zarr`` is ``pbmc``.  A pattern of paths
        (``runs/*.daf.zarr``) or a list of data sets is one schema, ``runs``: its tables have the
        rows of all of them, and a column ``dataset`` with the name of each.  Any other Zarr
        directory or archive with a group ``meta`` is one table, ``meta`` (see `zarr_table`).
        In a mapping also tables of your own, see `DafSession.register`.
    mode
        ``r+`` opens paths so that `DafSession.save_vector` and `DafSession.reorder_axis` work; by
        default ``r``.
    overlay
        The path of a data set of your own on top of one that is only read: what is saved goes
        there, and hides what it replaces. It is made if it is missing, unless ``mode="r+"``; with
        ``mode="r"`` it is only read. See `daf_storage.open_overlay`.
    obs_is, var_is
        What the axes of AnnData that are opened in place by a path or a pattern are called; by
        default what they say of themselves, else ``obs`` and ``var``.  With ``obs_is="cell"`` a
        folder of h5ad files and of data sets of Daf has one table ``cell``.
    cache_bytes
        How much of what was decoded (strings, their codes, packed chunks) is remembered for later
        queries, about; the least recently used is forgotten first.
    scan_options
        How tables are cut, pruned and read; the defaults suit all sizes.
    categoricals
        ``dictionary`` shows categoricals that an AnnData import noted as Arrow dictionaries, which
        are ordered where the categorical was: ``Categorical`` in pandas, ``Enum`` in polars.
    provenance
        Whether files and AnnData that are made of answers say where they come from (see
        `daf_query.provenance`), unless a call says otherwise.
    skip_broken
        Whether data sets of a pattern or a list that cannot be opened are left out, with a warning
        for each.

    Returns
    -------
    DafSession
        With one data set its tables are ``cell`` (and ``pbmc.cell``); with several they are
        ``pbmc.cell``, ``liver.cell`` and so on.

    Raises
    ------
    SourceNotFoundError
        There is nothing at a path, or a pattern matches nothing.
    InvalidInputError
        There are several data sets below an overlay, or it is of another one.

    Examples
    --------
    >>> import daf_storage
    >>> daf = daf_storage.MemoryDaf(name="tiny")
    >>> daf.add_axis("cell", ["TATA", "GATA"])
    >>> daf.set_vector("cell", "age", [30, 60])
    >>> connect(daf).sql("SELECT name FROM cell WHERE age > 40").to_pydict()
    {'name': ['GATA']}
    """
    given = {"obs_is": obs_is, "var_is": var_is}
    names = {name: axis for name, axis in given.items() if axis is not None}
    if names and isinstance(source, DafReader):
        raise errors.InvalidInputError(
            f"{source.location}: obs_is= and var_is= of connect() are for what it opens by a path; "
            "pass them to open_daf"
        )
    if skip_broken and isinstance(source, str | Path) and not is_pattern(source):
        raise errors.InvalidInputError(
            f"skip_broken= is for a pattern, and {source} is one path; leave it out"
        )
    if isinstance(source, Mapping) and not source:
        raise errors.InvalidInputError("connect() was given no data set")
    if cache_bytes != CACHE_BYTES:  # only that needs slices
        cache_bytes = slices.byte_count(cache_bytes, keyword="cache_bytes")
    how: dict[str, Any] = {"names": names, "skip_broken": skip_broken}
    with ExitStack() as closing:
        named: dict[str, Any]
        if overlay is not None:
            named = dict([opened_overlay(source, overlay, closing, mode, **how)])
        elif isinstance(source, Mapping):
            named = {n: opened(each, closing, mode or "r", **how) for n, each in source.items()}
        else:
            connected = opened(source, closing, mode or "r", **how)
            named = {schema_name(source, connected): connected}
        connections = engines.Connections(
            named,
            cache_bytes,
            scan_options=scan_options,
            categoricals=categoricals,
            provenance=provenance,
        )
        closing.pop_all()
    return DafSession(connections)


def _session_page(connections: engines.Connections) -> Markup:
    """Return the page of a session; the budget of previews is that of all data sets together."""
    budget = PreviewBudget()
    readers = connections.readers()
    parts = []
    for place, (name, schema) in enumerate(connections.schemas.items()):
        heading = html_element("strong", shortened(name))
        if schema.is_collection:
            parts.append(html_details(heading, _collection(schema)))
        else:
            daf = readers[name]
            section = data_set_section(daf.summary(), daf, budget)
            parts.append(html_details(heading, section, is_open=place == 0))
    others = sorted(connections.shared)
    if others:
        names = ", ".join(map(shortened, others))
        parts.append(html_element("div", f"tables: {names}"))
    return html_page(*parts)


def _collection(schema: engines.AxisSchema) -> Markup:
    """Return the data sets of a collection, and the lengths of their axes; reads metadata only."""
    readers = schema.readers()
    axes = sorted(schema.axes_set(), key=lambda axis: (-schema.axis_length(axis), axis))
    totals = ("together", *(f"{schema.axis_length(axis):,}" for axis in axes))
    rows: list[tuple[str, ...]] = [totals]
    for name, daf in list(readers.items())[:_MEMBERS]:
        lengths = (f"{daf.axis_length(axis):,}" if daf.has_axis(axis) else "" for axis in axes)
        rows.append((shortened(name), *lengths))
    more = len(readers) - _MEMBERS
    note = html_element("div", f"{more:,} more data sets", class_="note") if more > 0 else ""
    return joined_html(
        (
            html_element("div", f"collection of {len(readers):,} data sets: {schema.location}"),
            html_table(("data set", *map(shortened, axes)), rows),
            note,
        )
    )


def value_counts(session: DafSession, table: str, column: str) -> tuple[pa.Array, npt.NDArray[Any]]:
    """Return the distinct values of a column, ascending, NULL last, and how often each occurs.

    Parameters
    ----------
    table
        As SQL writes it.

    Examples
    --------
    >>> import daf_query, daf_storage
    >>> daf = daf_storage.MemoryDaf(name="tiny")
    >>> daf.add_axis("cell", ["TATA", "GATA"])
    >>> daf.set_vector("cell", "age", [30, 30])
    >>> value_counts(daf_query.connect(daf), "cell", "age")[1].tolist()
    [2]
    """
    name = syntax.quoted_name(column)
    counted = session.sql(
        f"SELECT {name} AS value, count(*) AS n FROM {table} GROUP BY {name}"  # noqa: S608 - quoted
    ).to_arrow_table()
    values = stored.one_array(counted.column("value"))
    show_pandas_for(values.type)
    counts = counted.column("n").to_numpy()
    if pa.types.is_nested(values.type):  # which have no order
        return values, counts
    order = pc.sort_indices(values)
    return values.take(order), counts[order.to_numpy()]
