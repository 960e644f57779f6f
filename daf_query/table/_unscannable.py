"""The C++ dataset behind a table: it has the schema, and refuses to be scanned.

Some functions of pyarrow hand a dataset to C++, which knows nothing of Python: `UnionDataset`,
`Scanner.from_dataset`, the right side of a join.  Without a C++ dataset they would crash the
interpreter; with this one they raise an error that says what to pass instead.
"""

from __future__ import annotations

import functools
from typing import Any, Final, NoReturn

import pyarrow as pa
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
