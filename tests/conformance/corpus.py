"""``make conformance CORPUS=FOLDER``: queries of sqllogictest files that lie elsewhere.

Each script is executed by plain DataFusion.  Its tables are handed to a session as own tables, and, where their columns
can be vectors, as axes; each query is asked there and of plain DataFusion over the same columns.  A script is run in a process of
its own, since some end it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anndata
import datafusion
import pandas as pd
import pyarrow as pa

from daf_query import DafSession, connect
from daf_storage import DafError, DafReader, MemoryDaf, copy_axis, copy_vector, from_anndata
from tests.conformance.oracles import Answer, answer_of
from tests.conformance.sqllogictest import Record, records

KINDS = ("equal", "refused by both", "refused by us", "different")
SECONDS = 300
"""How long a script may take."""

ROOT = Path(__file__).parents[2]


def main() -> None:
    """Print how many queries are equal, and those that are not."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.corpus", description=__doc__)
    parser.add_argument(
        "folder", type=Path, help="a checkout with .slt or .test files, or one file"
    )
    parser.add_argument(
        "--most", type=int, default=400, help="queries of a file (default: %(default)s)"
    )
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        for answered in requested(arguments.folder, arguments.most):
            print(json.dumps(answered))
        return
    counts: Counter[tuple[str, str]] = Counter()
    folder: Path = arguments.folder
    found = [path for path in folder.rglob("*") if path.suffix in (".slt", ".test")]
    for path in sorted(found) or [folder]:
        for line in _in_a_process(path, arguments.most):
            counts[line["path"], line["kind"]] += 1
            if line["kind"] not in KINDS[:2]:
                print(f"{path}:{line['line']} {line['path']}: {line['kind']}\n{line['detail']}\n")
    print(f"{'':16}" + "".join(f"{kind:>18}" for kind in KINDS))
    for path_name in ("axes", "own tables"):
        print(f"{path_name:16}" + "".join(f"{counts[path_name, kind]:18}" for kind in KINDS))


def _in_a_process(path: Path, most: int) -> Iterator[dict[str, Any]]:
    arguments = [str(path.resolve()), "--here", f"--most={most}"]
    with tempfile.TemporaryDirectory() as folder:  # some scripts write files
        output, end = Path(folder) / "answers", f"not answered within {SECONDS} s"
        with output.open("w") as stdout, suppress(subprocess.TimeoutExpired):
            done = subprocess.run(
                [sys.executable, "-m", "tests.conformance.corpus", *arguments],
                stdout=stdout,
                stderr=subprocess.PIPE,
                text=True,
                timeout=SECONDS,
                check=False,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
            end = f"exit code {done.returncode}\n{done.stderr[-500:]}" if done.returncode else ""
        lines = output.read_text().splitlines()
    yield from (json.loads(line) for line in lines if line.endswith("}"))
    if end:
        print(f"{path}: {end}\n")


def _engine() -> datafusion.SessionContext:
    options = {"datafusion.sql_parser.enable_ident_normalization": "false"}
    return datafusion.SessionContext(datafusion.SessionConfig(options).with_target_partitions(2))


@dataclass
class Requested:
    """A session, and plain DataFusion over the same tables."""

    session: DafSession
    engine: datafusion.SessionContext


@dataclass
class Script:
    """What a script has made so far."""

    engine: datafusion.SessionContext = field(default_factory=_engine)
    views: list[str] = field(default_factory=list)
    by_path: dict[str, Requested] | None = None

    def execute(self, statement: str) -> None:
        """Execute a statement; what fails is none of ours."""
        self.by_path = None
        try:
            self.engine.sql(statement).collect()
        except Exception:  # noqa: BLE001 - a script may expect it
            return
        if statement.upper().lstrip().startswith(("CREATE VIEW", "CREATE OR REPLACE VIEW")):
            self.views.append(statement)

    def paths(self) -> dict[str, Requested]:
        """Return sessions over the tables as they are now."""
        if self.by_path is None:
            tables = dict(self._tables())
            axes = {name: daf for name, table in tables.items() if (daf := _axis(name, table))}
            self.by_path = {
                "own tables": self._requested(tables, {}),
                "axes": self._requested(tables, axes),
            }
        return self.by_path

    def _tables(self) -> Iterator[tuple[str, pa.Table]]:
        schema = self.engine.catalog().schema()
        for name in sorted(schema.names()):
            try:
                if schema.table(name).kind == "physical":
                    yield name, self.engine.table(f'"{name}"').to_arrow_table()
            except Exception:  # noqa: BLE001, S112 - a table of files that are not here
                continue

    def _requested(
        self, tables: Mapping[str, pa.Table], axes: Mapping[str, DafReader]
    ) -> Requested:
        requested = Requested(connect(_joined(axes)), _engine())
        for name, table in tables.items():
            if not table.num_columns:
                continue
            seen = _numbered(table) if name in axes else table
            quoted = f'"{name}"'
            requested.engine.register_table(quoted, requested.engine.from_arrow(seen))
            if name not in axes:
                requested.session.register(table, name)
        for view in self.views:
            for execute in (requested.engine.sql, partial(requested.session.sql, allow="write")):
                with suppress(Exception):  # of a schema, or a table, that is not here
                    execute(view).collect()
        return requested


def _joined(axes: Mapping[str, DafReader]) -> DafReader:
    """Return a data set with all axes, and what the notes say of their columns."""
    daf = MemoryDaf(name="corpus")
    notes: dict[str, Any] = {"version": 1, "axes": {}, "matrices": {}, "uns": []}
    for name, axis in axes.items():
        copy_axis(axis, daf, name)
        for vector in axis.vectors_set(name):
            copy_vector(axis, daf, name, vector)
        notes["axes"][name] = json.loads(str(axis.get_scalar("anndata_notes")))["axes"][name]
    daf.set_scalar("anndata_notes", json.dumps(notes))
    return daf


def _numbered(table: pa.Table) -> pa.Table:
    """Return a table as an axis of it is shown; columns are sorted by their names."""
    names = pa.array([str(number) for number in range(len(table))], pa.string())
    columns = {"name": names, "index": pa.array(range(len(table)), pa.int64())}
    return pa.table({**columns, **{name: table[name] for name in sorted(table.column_names)}})


def _axis(name: str, table: pa.Table) -> DafReader | None:
    """Return a table as an axis, if all of its columns can be vectors."""
    if {"name", "index"} & {*table.column_names} or not name.isidentifier():
        return None
    if not table.num_columns or not all(map(_is_vector, table.schema.types)):
        return None
    frame = table.to_pandas(types_mapper=_NULLABLE.get)
    frame.index = pd.Index([str(number) for number in range(len(frame))])
    try:
        with warnings.catch_warnings(action="ignore"):
            adata = anndata.AnnData(obs=frame)
            daf = from_anndata(adata, name=name, obs_is=name, var_is=f"{name}.var")
            shown = connect(daf).sql(f'SELECT * FROM "{name}"').to_arrow_table()
    except (DafError, ValueError):  # names or values that no vector has
        return None
    return daf if answer_of(shown) == answer_of(_numbered(table)) else None


def _is_vector(kind: pa.DataType) -> bool:
    return kind in _NULLABLE or str(kind) in _OTHERS


_NULLABLE: Mapping[pa.DataType, Any] = {
    getattr(pa, name.lower())(): getattr(pd, f"{name}Dtype")()
    for name in ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
} | {pa.bool_(): pd.BooleanDtype()}
_OTHERS = ("float", "double", "string", "large_string", "string_view", "timestamp[ns]")


def requested(path: Path, most: int) -> Iterator[dict[str, Any]]:
    """Ask the queries of a script, or so many of them, evenly chosen."""
    script, found = Script(), list(records(path))
    n_queries = sum(record.is_query for record in found)
    every = max(1, -(-n_queries // most))
    number = 0
    for record in found:
        if not record.is_query:
            script.execute(record.text)
            continue
        number += 1
        if number % every == 0:
            for name, pair in script.paths().items():
                yield {"path": name, "line": record.line, **_compared(pair, record)}


def _compared(requested: Requested, record: Record) -> dict[str, str]:
    with warnings.catch_warnings(action="ignore"):
        expected = _answer(requested.engine, record.text)
        got = _answer(requested.session, record.text)
    detail = f"{record.text}\n  expected  {_shown(expected)}\n  got       {_shown(got)}"
    if expected.error:
        kind = "refused by both" if got.error else "equal"
    elif got.error:
        kind = "refused by us"
    else:
        kind = "equal" if expected.is_like(got, ordered=False) else "different"
    return {"kind": kind, "detail": detail}


def _answer(requested: Any, query: str) -> Answer:
    try:
        return answer_of(requested.sql(query).to_arrow_table())
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a panic of the engine is no Exception
        return Answer(error=f"{type(error).__name__}: {error}"[:500])


def _shown(answer: Answer) -> str:
    return answer.error or f"{len(answer.rows)} rows: {answer.rows[:6]}"[:600]


if __name__ == "__main__":
    main()
