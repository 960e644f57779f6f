"""Settings of the whole process, changed by assigning to these names.

>>> from daf_storage import settings
>>> settings.DAF_ZARR_ZIP_MAX_FILE_SIZE // 2**30
128
"""

from __future__ import annotations

DAF_ZARR_ZIP_MAX_FILE_SIZE: int = 1 << 37
"""How far an archive can grow while it is open for writing, in bytes; 128 GiB by default.

As much address space is set aside when it is opened, and neither memory nor disk.  Looked at when
an archive is opened.
"""

DAF_ZARR_ZIP_SYNC: bool = False
"""Whether each commit to an archive waits for the disk, so that no loss of power undoes it.

Without it, a commit survives a crash of the process, and of the system only once that has written
the data to the disk.  With it, each commit takes some milliseconds longer.  Looked at when an
archive is opened.
"""
