"""Violins: how numbers are distributed in groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from daf_query.plot._axes import AxesLike
from daf_query.plot._names import write_names
from daf_storage.spi import optional_import

_SHAPED_BY: Final = 20_000
_POINTS: Final = 100
_BLOCK: Final = 2048


def draw_violins(
    ax: AxesLike,
    samples: Sequence[npt.NDArray[Any]],
    labels: Sequence[str],
    *,
    colours: Sequence[str],
    seed: int,
) -> None:
    """Draw a violin for each sample, with a line at its median and one from least to greatest.

    Medians and ends are those of all numbers that are finite.  The shape is that of at most 20,000
    of them, which a seed chooses.  Where there are none, there is no violin.

    Parameters
    ----------
    labels
        Below each violin.
    colours
        One for each.
    """
    cbook = optional_import("matplotlib.cbook", extra="plot")
    rng = np.random.default_rng(seed)
    drawn, statistics = [], []
    for place, sample in enumerate(samples):
        values = np.asarray(sample, np.float64)
        values = values[np.isfinite(values)]
        if not values.size:
            continue
        few = values if values.size <= _SHAPED_BY else rng.choice(values, _SHAPED_BY, replace=False)
        (shape,) = cbook.violin_stats([few], _density, points=_POINTS)
        ends = {"min": values.min(), "max": values.max(), "median": np.median(values)}
        statistics.append({**shape, **ends, "mean": values.mean()})
        drawn.append(place)
    if drawn:
        parts = ax.violin(
            statistics, positions=drawn, widths=0.85, showmedians=True, showextrema=True
        )
        for body, place in zip(parts["bodies"], drawn, strict=True):
            body.set(facecolor=colours[place], alpha=0.75, linewidth=0)
        for name in ("cbars", "cmins", "cmaxes", "cmedians"):
            parts[name].set(color="0.35", linewidth=0.8)
    write_names(ax.xaxis, labels, rotation=90 if len(labels) > 3 else 0)
    ax.set_xlim(-0.7, len(labels) - 0.3)


def _density(values: npt.NDArray[Any], coordinates: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return how dense values are at coordinates, up to a factor: by a Gaussian kernel.

    Its width is that of Scott's rule.
    """
    least = values.min()  # a narrow range far from zero has too few floats to be edges of bins
    values, coordinates = values - least, np.asarray(coordinates) - least
    deviation = values.std(ddof=1) if values.size > 1 else 0.0
    if not deviation > 0:
        constant: npt.NDArray[Any] = (coordinates == 0).astype(np.float64)
        return constant
    width = deviation * values.size ** (-1 / 5)
    places = coordinates[:, np.newaxis]
    distinct, counts = np.unique(values, return_counts=True)
    density: npt.NDArray[Any] = np.zeros(len(places))
    for start in range(0, distinct.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        density += np.exp(-0.5 * ((places - distinct[block]) / width) ** 2) @ counts[block]
    density /= values.size * width * np.sqrt(2 * np.pi)
    return density
