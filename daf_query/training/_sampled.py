"""The protocol of samplers: all that reading rows needs to know of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa


class Sampled(Protocol):
    """Entries of an axis; a `Sampler` is one."""

    @property
    def axis(self) -> str:
        """The axis whose entries they are."""
        ...

    @property
    def indices(self) -> npt.NDArray[np.int64]:
        """The positions along the axis, ascending."""
        ...

    @property
    def names(self) -> pa.Array:
        """The name of each entry."""
        ...

    @property
    def weights(self) -> npt.NDArray[np.float64] | None:
        """The weight of each entry."""
        ...

    @property
    def lengths(self) -> Mapping[str, int]:
        """How many entries the axis has in each data set."""
        ...
