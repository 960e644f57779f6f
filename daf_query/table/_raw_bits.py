"""The data type ``r<N>`` of Zarr v3: N raw bits per item, as the core specification spells it.

zarr-python writes the same items as ``raw_bytes``, with a length in bytes, and knows no other
spelling; zarrs (Rust), and so zarr-datafusion-search, write ``r16``, with a list of bytes as fill
value.  The type is added to zarr-python's registry, so that arrays of either spelling can be read
from any store, and what is appended to an array keeps its spelling.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar, Final, Self

import numpy as np
from zarr.dtype import DataTypeValidationError, RawBytes, data_type_registry

_BITS_PER_BYTE: Final = 8
_MAX_BYTES: Final = 1 << 24
_SPELLING: Final = re.compile(r"r([0-9]{1,18})")


class RawBits(RawBytes):
    """N raw bits per item, in whole bytes; without a spelling in Zarr v2."""

    _zarr_v3_name: ClassVar[Any] = "raw_bits"

    @classmethod
    def from_native_dtype(cls, dtype: Any) -> Self:
        """Refuse: whoever asks for raw bytes by numpy's name gets zarr-python's spelling."""
        raise DataTypeValidationError(f"{dtype} is stored as raw_bytes")

    @classmethod
    def _from_json_v2(cls, data: Any) -> Self:
        raise DataTypeValidationError(f"{data!r} is no data type r<N> of Zarr v3")

    @classmethod
    def _from_json_v3(cls, data: Any) -> Self:
        spelling = _SPELLING.fullmatch(data) if isinstance(data, str) else None
        if spelling is None:
            raise DataTypeValidationError(f"{data!r} is no data type r<N> of Zarr v3")
        length, left = divmod(int(spelling[1]), _BITS_PER_BYTE)
        if left or not length:
            raise ValueError(f"the data type {data!r} does not have a whole number of bytes")
        if length > _MAX_BYTES:
            raise ValueError(f"items of the data type {data!r} are larger than any that are read")
        return cls(length=length)

    def to_json(self, zarr_format: Any) -> Any:
        """Return the spelling."""
        if zarr_format != 3:
            raise ValueError("the data type r<N> is of Zarr v3 alone")
        return f"r{self.length * _BITS_PER_BYTE}"

    def to_json_scalar(self, data: object, *, zarr_format: Any) -> Any:  # noqa: ARG002 - inherited
        """Return a fill value as a list of bytes."""
        return list(self.cast_scalar(data).tobytes())

    def from_json_scalar(self, data: Any, *, zarr_format: Any) -> np.void:  # noqa: ARG002 - inherited
        """Return the fill value that a list of bytes is."""
        is_listed = isinstance(data, list) and all(type(byte) is int for byte in data)
        if not is_listed or len(data) != self.length or not all(0 <= byte < 256 for byte in data):
            raise TypeError(
                f"the fill value {data!r} is not a list of {self.length} bytes, as the data type "
                f"{self.to_json(3)!r} needs"
            )
        return self._cast_scalar_unchecked(bytes(data))


def register_raw_bits() -> None:
    """Let zarr-python read arrays of this type in this process; once or more often."""
    data_type_registry.register("r*", RawBits)
