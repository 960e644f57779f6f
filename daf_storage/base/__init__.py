"""Names that every part of the package shares: value types, strings, packing, threads, caches.

**Nouns.** `StorageType` is an element type, `Span` a range of positions along an axis, `Packing`
how an array is cut into chunks and compressed; `DecodedCache` keeps decoded arrays within a budget
of bytes.

Must not know stores, trees or data sets.
"""

from daf_storage.base import _strings as strings
from daf_storage.base._model import (
    CLOUD_SCHEMES,
    IMPORT_CHUNK_KB,
    INDEX_VECTOR,
    MAX_STRING_BYTES,
    METADATA_NAMES,
    NAME_VECTOR,
    RESERVED_VECTORS,
    STAGING_NAME,
    AnyArray,
    CodecName,
    IfExists,
    MatrixInfo,
    OpenMode,
    Packing,
    Span,
    StorageType,
    VectorInfo,
    arrow_of,
    check_choice,
    check_mode,
    check_name,
    column_blocks,
    free_name,
    is_remote,
    name_problem,
    one_array,
    packing_of,
    runs_of_chunks,
    spans_of_length,
    unique_name,
)
from daf_storage.base._optional import (
    DOWNLOADS,
    Progress,
    ShowProgress,
    install_command,
    optional_import,
    pandas,
    progress_bar,
    show_pandas,
)
from daf_storage.base._strings import (
    decode_vlen_bytes,
    decode_vlen_chunks,
    decode_vlen_pieces,
    decode_vlen_utf8,
    encode_vlen_utf8,
    first_duplicate,
    first_strings,
    string_array,
    string_offsets,
)
from daf_storage.base._threads import (
    SERVER_CLIENT,
    THREADS,
    DecodedCache,
    ForkLock,
    ThreadedLibrary,
    computed,
    fetched,
    new_chunk_cache,
    paused_collection,
    run_all,
)
