"""A campaign of archives with an entry that expands to far more than its metadata say.

There is no memory for it: who expands more than the metadata have use for ends with an exception
that is none of ours, or is refused all memory.
"""

from __future__ import annotations

import random
import resource
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from daf_query import connect
from daf_storage import DafError, open_daf, repair, verify
from tests.torture.mutation import base_of
from tests.torture.samples import Form, Property, attempt, is_equal, read
from tests.torture.tally import LossError, WrongAnswerError
from tests.torture.worker import Case

_PART_BYTES = 1 << 22
_SIZE_BYTES = 768 << 20
_ROOM_BYTES = 512 << 20
_DATA_FIELD = 5
_STORED = 0


@cache
def _zeros() -> tuple[bytes, int]:
    """Return the deflate stream of more zeros than a worker has memory for, and their CRC."""
    part, crc = bytes(_PART_BYTES), 0
    coder = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    first, repeated = (coder.compress(part) + coder.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    count = _SIZE_BYTES // _PART_BYTES
    for _ in range(count):
        crc = zlib.crc32(part, crc)
    return first + repeated * (count - 1) + coder.flush(), crc


def put_bomb(source: Path, target: Path, name: str) -> None:
    """Copy an archive, compressed; an entry expands to as many zeros as its directory says."""
    stream, crc = _zeros()
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for entry in old.namelist():
            data = stream if entry == name else old.read(entry)
            new.writestr(entry, data, _STORED if entry == name else zipfile.ZIP_DEFLATED)
        info = new.getinfo(name)
    whole = bytearray(target.read_bytes())
    sizes = struct.pack("<III", crc, len(stream), _SIZE_BYTES)
    header = whole.rindex(b"PK\1\2", 0, whole.rindex(name.encode()))
    for at, start in ((info.header_offset, 8), (header, 10)):
        whole[at + start : at + start + 2] = struct.pack("<H", zipfile.ZIP_DEFLATED)
        whole[at + start + 6 : at + start + 18] = sizes
    target.write_bytes(whole)


def expand(form: Form) -> Callable[[], Case]:
    """Return a campaign that reads, verifies and repairs an archive with such an entry."""

    def campaign() -> Case:
        base = base_of(form, with_indexes=False)
        with zipfile.ZipFile(base.path) as archive:
            names = [info.filename for info in archive.infolist() if info.file_size]

        def case(folder: Path, rng: random.Random) -> None:
            name = rng.choice(names)
            path = folder / base.path.name
            put_bomb(base.path, path, name)
            with _little_memory():
                _use(path, base.values)
                if rng.random() < 0.1:
                    attempt(verify if rng.random() < 0.5 else repair, path)

        return case

    return campaign


@contextmanager
def _little_memory() -> Iterator[None]:
    """Leave room for less than the entry expands to while the block runs."""
    pages = int(Path("/proc/self/statm").read_text().split()[_DATA_FIELD])
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = pages * resource.getpagesize() + _ROOM_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, hard))


def _use(path: Path, values: dict[Property, Any]) -> None:
    """Read everything, which may be refused, or be as it was where it was not concerned."""
    attempt(lambda: connect(path).close())
    daf = attempt(open_daf, path)
    if isinstance(daf, DafError):
        return
    with daf:
        found = {one: attempt(read, daf, one) for one in values}
    refused = [one for one, value in found.items() if isinstance(value, DafError)]
    if len(refused) == len(values):
        raise LossError(f"nothing can be read: {found[refused[0]]}")
    for one, value in found.items():
        if one not in refused and not is_equal(value, values[one]):
            raise WrongAnswerError(f"{one.path} is not what it was")
