"""Names that every part of the package shares: value types, strings, packing, progress, caches.

**Nouns.** `StorageType` is an element type, `Span` a range of positions along an axis, `Packing`
how an array is cut into chunks and compressed; `DecodedCache` keeps decoded arrays within a budget
of bytes.

Must not know stores, trees or data sets.
"""

from daf_storage.base import _strings as strings
from daf_storage.base._data_set_names import unique_name
from daf_storage.base._decode_cache import DecodedCache
from daf_storage.base._duplicates import first_duplicate
from daf_storage.base._forking import SERVER_CLIENT, ForkLock, ThreadedLibrary
from daf_storage.base._kept_threads import kept_threads
from daf_storage.base._model import (
    INDEX_VECTOR,
    METADATA_NAMES,
    NAME_VECTOR,
    RESERVED_VECTORS,
    STAGING_NAME,
    AnyArray,
    IfExists,
    MatrixInfo,
    OpenMode,
    Span,
    StorageType,
    VectorInfo,
    check_if_exists,
    check_mode,
    check_name,
    name_problem,
)
from daf_storage.base._optional import install_command, optional_import, pandas
from daf_storage.base._packing import IMPORT_CHUNK_KB, CodecName, Packing, packing_of
from daf_storage.base._paused_collection import paused_collection
from daf_storage.base._progress import Progress, ShowProgress, progress_bar
from daf_storage.base._strings import (
    decode_vlen_bytes,
    decode_vlen_chunks,
    decode_vlen_pieces,
    decode_vlen_utf8,
    encode_vlen_utf8,
    first_strings,
    one_array,
)
