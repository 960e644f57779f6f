"""Pictures of results: ratios of all works, and how times grow with the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks._data import GROWTH_COLUMNS, TableData
from benchmarks._runner import Result
from benchmarks._systems import INFOS


def _pyplot() -> Any:
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    return plt


def draw_ratios(results: list[Result], path: Path) -> None:
    """Draw how many times as long as daf-query others take, a row for each work, on a logarithmic scale."""
    plt = _pyplot()
    medians = {(r.data.key, r.work.key, r.system): r.median for r in results if r.median}
    labels: dict[tuple[str, str], str] = {}
    for result in results:
        if (result.data.key, result.work.key, "daf") in medians:
            labels[result.data.key, result.work.key] = f"{result.work.title} ({_short(result)})"
    systems = [name for name in INFOS if name != "daf" and any(key[2] == name for key in medians)]
    figure, axes = plt.subplots(figsize=(11, 1.5 + 0.32 * len(labels)), layout="constrained")
    markers = "osD^vP*X<>hpd8"
    for number, name in enumerate(systems):
        points = [
            (medians[(*key, name)] / medians[(*key, "daf")], -row)
            for row, key in enumerate(labels)
            if (*key, name) in medians
        ]
        color = "black" if name == "limit" else f"C{number % 10}"
        axes.scatter(
            [x for x, _ in points],
            [y for _, y in points],
            s=34,
            marker=markers[number % len(markers)],
            color=color,
            label=INFOS[name].title,
            alpha=0.85,
        )
    axes.axvline(1, color="0.3", linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks([-row for row in range(len(labels))], labels.values(), fontsize=8)
    axes.set_xlabel("time relative to daf-query; right of the line daf-query is faster")
    axes.grid(visible=True, axis="x", alpha=0.3)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_growth(results: list[Result], path: Path) -> bool:
    """Draw times over rows, if tables of three sizes or more were measured; return whether it did."""
    points: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for result in results:
        data = result.data
        if isinstance(data, TableData) and data.columns == GROWTH_COLUMNS and result.median:
            key = (result.work.title, result.system)
            points.setdefault(key, []).append((data.rows, result.median))
    shown = {key: sorted(found) for key, found in points.items() if len(found) > 2}
    if not shown:
        return False
    plt = _pyplot()
    titles = list(dict.fromkeys(title for title, _ in shown))
    figure, panels = plt.subplots(
        1, len(titles), figsize=(4 * len(titles), 4), layout="constrained", squeeze=False
    )
    for panel, title in zip(panels[0], titles, strict=True):
        for name in INFOS:
            if (title, name) in shown:
                sizes, times = zip(*shown[title, name], strict=True)
                panel.loglog(sizes, [1e3 * t for t in times], marker="o", label=INFOS[name].title)
        panel.set(xlabel="rows", ylabel="ms")
        panel.set_title(title, wrap=True, fontsize=10)
        panel.legend(fontsize=7)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return True


def _short(result: Result) -> str:
    data = result.data
    if isinstance(data, TableData):
        size = f"{data.rows:,} rows"
    else:
        size = f"{data.cells // 1000}k x {data.genes / 1000:g}k"
    return size if data.order == "random" else f"{size}, {data.order}"
