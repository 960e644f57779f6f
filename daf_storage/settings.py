"""Settings of the whole process, changed by assigning to these names.

>>> from daf_storage import settings
>>> settings.DAF_ZARR_ZIP_MAX_FILE_SIZE // 2**30
128
"""

from __future__ import annotations

DAF_ZARR_ZIP_MAX_FILE_SIZE: int = 1 << 37
"""How far an archive can grow while it is open for writing, in bytes; 128 GiB by default.

Looked at when an archive is opened.
"""

DAF_ZARR_ZIP_SYNC: bool = False
"""Whether each commit to an archive waits for the disk, so that no loss of power undoes it.

Without it, a commit survives a crash of the process, and of the system only once that has written
the data to the disk.  With it, each commit takes some milliseconds longer.  Looked at when an
archive is opened.
"""

DAF_DECODED_CHUNKS_MAX_BYTES: int = 1 << 28
"""How many bytes of decompressed chunks the process remembers; 256 MiB for all files by default.

Looked at when the first file is opened, and for what is remembered of an array: of one that takes
more than half of this, only the chunks of which a read used a part.
"""

DAF_COPY_MAX_BYTES: int = 1 << 30
"""How much memory the numbers of a matrix may take while it is copied, transposed or imported.

1 GiB by default, and never less than 16 MiB; of an array that is cut into chunks, a row of these at
least.  Names, vectors, strings and pointers to columns are held besides; and so are matrices that
become sparse, or dense, or of another type.  With more, the other layout of a packed matrix is
written in fewer passes.
"""
