"""SQL queries: their answers, their plans, and what they need of the data sets."""

from __future__ import annotations

import time
from dataclasses import replace

from daf_query.session._connected import Connected
from daf_query.sql import (
    Allow,
    Diagnosis,
    Explanation,
    Params,
    QueryPlan,
    QueryRequirements,
    QueryResult,
    bind,
    diagnose,
    entry_columns,
    query_result,
    reporting,
    requirements_of,
)
from daf_query.syntax import is_select
from daf_storage import errors


class Queries(Connected):
    """The part of a session that is about SQL queries."""

    def sql(
        self, query: str, *, params: Params | None = None, allow: Allow = "read"
    ) -> QueryResult:
        """Plan a SQL query; rows are computed when the result is asked for them.

        Parameters
        ----------
        query
            One statement.  Tables are the axes, ``matrices``, ``relations`` and ``scalars``;
            identifiers keep their case.
        params
            Values for its parameters: a list for ``?`` or ``$1``, a mapping for ``$name``.  After
            IN, a value is a list (``donor IN $donors``).  None is NULL, which equals nothing.
        allow
            ``read`` refuses whatever changes something: CREATE, INSERT, COPY, SET and so on.

        Returns
        -------
        QueryResult
            With ``to_pandas()``, ``to_polars()``, ``to_duckdb()``, ``to_arrow_table()``,
            ``to_pylist()``, ``batches()``, ``save(path)``, ``filter(...)`` and more.

        Raises
        ------
        QueryError
            The SQL is wrong; a syntax error says where.
        VectorNotFoundError, AxisNotFoundError
            A column or table is unknown; the message says which there are.
        ReadOnlyError
            The query would change something.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.set_vector("cell", "age", [1, 2, 3])
        >>> db = connect(daf)
        >>> db.sql("SELECT name FROM cell WHERE age > $least", params={"least": 2}).to_pydict()
        {'name': ['C']}
        """
        return query_result(self._engine, bind(query, params), allow=allow)

    def explain(self, query: str, *, params: Params | None = None) -> QueryPlan:
        """Plan a query and return the plan; nothing is executed.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.set_vector("cell", "age", [1, 2, 3])
        >>> print(connect(daf).explain("SELECT name FROM cell WHERE age > 2").logical)
        TableScan: cell projection=[name], full_filters=[cell.age > Int64(2)]
        """
        with reporting() as reports:
            plan = self.sql(query, params=params).explain()
        notes = {name: note for report in reports for name, note in report.notes.items()}
        return replace(plan, notes=notes)

    def explain_analyze(self, query: str, *, params: Params | None = None) -> Explanation:
        """Run a query and report what it cost: zones left out and read, values of each column.

        The engine runs it, also where it would be answered without it (`QueryPlan.direct`).

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.set_vector("cell", "age", [1, 2, 3])
        >>> daf.set_vector("cell", "score", [0.1, 0.2, 0.3])
        >>> report = connect(daf).explain_analyze("SELECT score FROM cell WHERE age > 2")
        >>> report.rows, report.scans[0].values
        (1, {'age': 3, 'score': 1})
        """
        with reporting() as reports:
            started = time.perf_counter()
            result = self.sql(query, params=params)
            rows = sum(batch.num_rows for batch in result.collect())
            seconds = time.perf_counter() - started
            plan = result.explain().physical
            scans = tuple(report for report in reports if report.read)
        hits = sum(report.cache_hits for report in reports)
        return Explanation(query, seconds, rows, scans, hits, plan)

    def diagnose(
        self,
        axis: str,
        predicate: str,
        *,
        params: Params | None = None,
        schema: str | None = None,
    ) -> Diagnosis:
        """Count the rows that each part of a predicate leaves, and say why it leaves none.

        Each part that AND joins is counted alone, and with all before it, by queries of their own.
        Strings that do not occur come with the nearest that do, numbers with the range of their
        column, and constants of the wrong type with what to write.

        Parameters
        ----------
        axis
            The axis whose rows are counted.
        predicate
            As for ``rows=`` of `matrix`, also in Python's spellings; ORDER BY and LIMIT are left
            out.  Or a SELECT of this one table, of whose WHERE is asked.
        params
            Values for its parameters, as for `sql`.
        schema
            Which data set, where several are connected.

        Returns
        -------
        Diagnosis
            Printed as a table; ``conjuncts`` has its rows, ``to_dict()`` everything.

        Raises
        ------
        AxisNotFoundError
            There is no such axis.
        QueryError
            It is no SQL, or of several tables.  A part that fails for another reason, such as an
            unknown column, is reported.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.set_vector("cell", "age", [1, 2, 3])
        >>> daf.set_vector("cell", "donor", ["N1", "N3", "N3"])
        >>> connect(daf).diagnose("cell", "age > 1 AND donor = 'n3'")
        0 of 3 rows of cell match
          alone  so far  condition
              2       2  age > 1
              0       0  donor = 'n3'
                           'n3' does not occur in donor; nearest: 'N3' (2 rows)
        """
        tables = self._connections.schema(schema)
        if axis not in tables.axes_set():
            raise errors.axis_not_found(tables.location, axis, tables.axes_set())
        bound = bind(predicate, params)
        return diagnose(self._engine, tables.name, axis, bound, select=is_select(bound))

    def matrix_columns(
        self, axis: str, written: str, *, schema: str | None = None
    ) -> dict[str, tuple[str, str, str]]:
        """Return what `table` takes as ``matrix_columns=``, of entries as SQL names them.

        Parameters
        ----------
        written
            Entries of matrices with commas between them, each with AS and a name, if it is to have
            another one: ``"X['CD8A'], X['CD3E'] AS cd3e"``.
        schema
            Which data set, where several are connected.

        Raises
        ------
        AxisNotFoundError, MatrixNotFoundError, EntryNotFoundError
            There is no such axis, matrix or entry.
        QueryError
            It is written wrongly.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B"])
        >>> daf.add_axis("gene", ["CD8A", "CST3"])
        >>> daf.set_matrix("cell", "gene", "X", [[0.0, 5.0], [2.0, 0.0]])
        >>> connect(daf).matrix_columns("cell", "X['CD8A'], X['CST3'] AS cst3")
        {"X['CD8A']": ('gene', 'X', 'CD8A'), 'cst3': ('gene', 'X', 'CST3')}
        """
        tables = self._connections.schema(schema)
        if axis not in tables.axes_set():
            raise errors.axis_not_found(tables.location, axis, tables.axes_set())
        entries = entry_columns(tables, axis, written)
        return {name: (each.axis, each.matrix, each.entry) for name, each in entries.items()}

    def requirements(self, query: str, *, schema: str | None = None) -> QueryRequirements:
        """Return what another engine needs to answer a query; nothing but metadata is read.

        Parameters
        ----------
        query
            It may be written for the other engine: what cannot be planned here needs every column
            that it may name.
        schema
            Which data set, where several are connected.

        Returns
        -------
        QueryRequirements
            The query with a quoted name for each ``X['CD8A']``, and by axis the ``columns``, the
            ``predicate`` of the rows, and the ``entries`` of matrices.

        Raises
        ------
        EntryNotFoundError, QueryError
            An entry of a matrix is not there, or written wrongly.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.set_vector("cell", "age", [1, 2, 3])
        >>> daf.set_vector("cell", "donor", ["N1", "N2", "N2"])
        >>> needs = connect(daf).requirements("SELECT donor FROM cell WHERE age > 2")
        >>> needs.tables["cell"].columns, needs.tables["cell"].predicate
        (('age', 'donor'), Compare(column='age', operator='>', value=2))
        """
        return requirements_of(self._connections.schema(schema), query)
