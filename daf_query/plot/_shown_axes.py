"""Axes of matplotlib that a notebook shows; imported when something is drawn."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

from daf_storage.base import optional_import

if TYPE_CHECKING:
    _Axes = Any
else:
    _Axes = optional_import("matplotlib.axes", extra="plot").Axes

_SCALE = 2


class ShownAxes(_Axes):
    """Axes that a notebook shows as the picture of their figure, at twice its resolution."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        figure = self.figure
        width, height = (figure.get_size_inches() * figure.dpi).round().astype(int).tolist()
        picture = BytesIO()
        figure.savefig(picture, format="png", dpi=_SCALE * figure.dpi)
        return picture.getvalue(), {"width": width, "height": height}
