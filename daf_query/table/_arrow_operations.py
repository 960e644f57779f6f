"""The faces of ``pyarrow.dataset``: what a table and its fragments answer, or refuse.

Some functions of pyarrow hand a dataset to C++, which knows nothing of Python: `UnionDataset`,
`Scanner.from_dataset`, the right side of a join.  Without a C++ dataset they would crash the
interpreter; the one behind a table has the schema, and refuses to be scanned by an error that says
what to pass instead.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Final, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pafs

from daf_storage import errors


class _RefusingFiles(pafs.FileSystemHandler):
    """A file system of which no file can be opened."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _RefusingFiles)

    __hash__ = object.__hash__

    def get_type_name(self) -> str:
        """Return the name of this kind of file system."""
        return "refusing"

    def normalize_path(self, path: str) -> str:
        """Return the path as it is."""
        return path

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise errors.InvalidInputError(
            "a table of a data set cannot be scanned by pyarrow's C++ code; pass its to_table(), "
            "its scanner() or pyarrow.RecordBatchReader.from_stream(table) instead"
        )

    get_file_info = get_file_info_selector = _refuse
    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _refuse
    delete_file = move = copy_file = _refuse
    open_input_stream = open_input_file = open_output_stream = open_append_stream = _refuse


_FILES: Final = pafs.PyFileSystem(_RefusingFiles())
_FORMAT: Final = ds.IpcFileFormat()
_FRAGMENT: Final = _FORMAT.make_fragment("table", filesystem=_FILES)


@functools.lru_cache(maxsize=64)
def unscannable(schema: pa.Schema) -> ds.Dataset:
    """Return a C++ dataset with a schema, of which no row can be read; that of equal ones is one.

    >>> unscannable(pa.schema([("n", pa.int64())])).schema.names
    ['n']
    """
    return ds.FileSystemDataset([_FRAGMENT], schema, _FORMAT, _FILES)


class ArrowOperations:
    """What a table overrides of a Dataset without knowing its own columns.

    It comes before the Dataset among the bases of a table: an inherited member would ask the C++
    dataset behind it, which has no rows.
    """

    @property
    def partition_expression(self) -> pc.Expression:
        """TRUE: nothing is known of all rows."""
        return pc.scalar(True)  # noqa: FBT003 - an Arrow literal

    @property
    def children(self) -> NoReturn:
        """Refuse: a table is one, even if its rows are of several data sets."""
        raise errors.InvalidInputError(f"{self!r} has no children; see get_fragments()")

    def replace_schema(self, schema: pa.Schema) -> NoReturn:
        """Refuse: the schema is what the data set stores."""
        raise errors.InvalidInputError(
            f"{self!r}: the schema follows from the stored vectors and cannot be replaced; "
            f"cast the result instead (asked for {schema.names})"
        )

    def sort_by(self: Any, sorting: Any, **kwargs: Any) -> ds.InMemoryDataset:
        """Return the sorted table, in memory."""
        return ds.InMemoryDataset(self.to_table().sort_by(sorting, **kwargs))

    def join(self: Any, right_dataset: Any, *args: Any, **kwargs: Any) -> ds.InMemoryDataset:
        """Return this table joined with another, in memory; SQL does it in a stream."""
        right = right_dataset.to_table()
        return ds.InMemoryDataset(self.to_table().join(right, *args, **kwargs))

    def join_asof(self: Any, right_dataset: Any, *args: Any, **kwargs: Any) -> ds.InMemoryDataset:
        """Return this table joined to the nearest rows of another, in memory."""
        right = right_dataset.to_table()
        return ds.InMemoryDataset(self.to_table().join_asof(right, *args, **kwargs))

    def __arrow_c_stream__(self: Any, requested_schema: object = None) -> object:
        """Export all rows as an Arrow stream."""
        stream: object = self.scanner().__arrow_c_stream__(requested_schema)
        return stream

    def _get_fragments(
        self: Any,
        filter: pc.Expression | None,  # noqa: A002 - pyarrow's name
    ) -> Iterator[Any]:
        fragments: Iterator[Any] = self.get_fragments(filter)
        return fragments


BATCH_ROWS: Final = 1 << 17
"""The most rows of a batch, unless fewer are asked for."""


class Fragment:
    """Some rows of a table with the face of ``pyarrow.dataset.Fragment``."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    @property
    def physical_schema(self) -> pa.Schema:
        """The schema of the whole table."""
        schema: pa.Schema = self._dataset.schema
        return schema

    @property
    def partition_expression(self) -> pc.Expression:
        """TRUE: nothing is known of all rows."""
        return self._dataset.partition_expression

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: Any = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        batch_size: int = BATCH_ROWS,
        **_: Any,
    ) -> ds.Scanner:
        """Return a scanner of these rows."""
        raise NotImplementedError

    def to_batches(
        self, schema: pa.Schema | None = None, **kwargs: Any
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches."""
        batches: Iterator[pa.RecordBatch] = self.scanner(schema, **kwargs).to_batches()
        return batches

    def to_table(self, schema: pa.Schema | None = None, **kwargs: Any) -> pa.Table:
        """Return the rows as a table."""
        return self.scanner(schema, **kwargs).to_table()
