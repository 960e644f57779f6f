"""The files of a run: one Markdown table of ratios for each data set, one JSON, and pictures."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from benchmarks import _pictures, _targets, _works
from benchmarks._reasons import reason
from benchmarks._runner import Result, Runner
from benchmarks._systems import INFOS

_NAMES: Final = {"tiny": "tiny", "daily": "daily", "full": "full"}
FEW_TIMES: Final = 7
"""Medians of fewer times are marked."""


class Report:
    """The files of the results of a run."""

    def __init__(self, folder: Path, size: str, machine: dict[str, str], runner: Runner) -> None:
        self.markdown = folder / f"{_NAMES[size]}.md"
        self._machine = machine
        self._runner = runner
        self._date = time.strftime("%Y-%m-%d")

    def write(self) -> None:
        """Write all that was measured so far."""
        results = self._runner.results
        self.markdown.parent.mkdir(parents=True, exist_ok=True)
        self.markdown.with_suffix(".json").write_text(
            json.dumps(
                {
                    "date": self._date,
                    "machine": self._machine,
                    "versions": versions(results),
                    "results": [result.to_json() for result in results],
                    "targets": [vars(row) for row in _targets.rows(results)],
                },
                indent=1,
            )
        )
        _pictures.draw_ratios(results, self.markdown.with_suffix(".png"))
        growth = self.markdown.with_name(f"{self.markdown.stem}-growth.png")
        has_growth = _pictures.draw_growth(results, growth)
        self.markdown.write_text("\n".join(self._lines(results, has_growth=has_growth)) + "\n")

    def _lines(self, results: list[Result], *, has_growth: bool) -> Iterable[str]:
        machine = "; ".join(
            f"{name} {value}" if " " in name else value for name, value in self._machine.items()
        )
        yield f"# Measured on {self._date}, {self.markdown.stem}"
        yield ""
        yield f"{machine}."
        yield ""
        yield (
            "Numbers with x are times of another system as a multiple of those of daf-query; below 1 (bold) the other is faster, and the last column says "
            "why. Medians, in parentheses the quartiles. Every answer is equal to that of the others; what has no number does not offer the task (-), or the "
            "notes say what happened. An asterisk: a median of fewer than seven times."
        )
        for data in {result.data.key: result.data for result in results}.values():
            of_data = [result for result in results if result.data == data]
            yield from ("", f"## {data.title[0].upper()}{data.title[1:]}", "", *_table(of_data))
            yield from _notes(of_data)
        yield from ("", f"![ratios]({self.markdown.stem}.png)")
        if has_growth:
            yield f"![growth]({self.markdown.stem}-growth.png)"
        yield from (
            "",
            "## Targets",
            "",
            "| work | target | measured | |",
            "| --- | --- | --- | --- |",
        )
        for row in _targets.rows(results):
            yield f"| {row.work} | {row.target} | {row.measured} | {row.verdict} |"
        yield from ("", "## Versions", "")
        yield ", ".join(f"{name} {version}" for name, version in versions(results).items()) + "."


def versions(results: list[Result]) -> dict[str, str]:
    """Return the versions of all packages; those of an environment with its name where they differ."""
    found: dict[str, str] = {}
    for result in results:
        for name, version in result.details.get("versions", {}).items():
            if found.setdefault(name, version) != version:
                found[f"{name} (with {INFOS[result.system].title})"] = version
    return dict(sorted(found.items()))


def _table(results: list[Result]) -> Iterable[str]:
    by_cell = {(result.work.key, result.system): result for result in results}
    systems = [name for name in INFOS if any(result.system == name for result in results)]
    others = [name for name in systems if name != "daf"]
    yield (
        "| "
        + " | ".join(
            ["", "daf-query", *(INFOS[name].title for name in others), "why others are faster"]
        )
        + " |"
    )
    yield "| --- |" + " ---: |" * (len(others) + 1) + " --- |"
    for work in _works.ALL.values():
        row = {name: by_cell[work.key, name] for name in systems if (work.key, name) in by_cell}
        if any(result.median is not None for result in row.values()):
            yield _row(work.title, row, others)
    for title, field, work_key in (
        ("bytes on disk", "disk_bytes", _works.PREPARE.key),
        ("peak memory, filter and slice", "peak_bytes", "filter_slice-warm"),
        ("the same, not mapped from files", "anonymous_bytes", "filter_slice-warm"),
        ("peak memory, group by", "peak_bytes", "group_by-warm"),
        ("imports", "import_seconds", "filter_slice-warm"),
        ("imports", "import_seconds", "group_by-warm"),
    ):
        values = {
            name: by_cell[work_key, name].details[field]
            for name in systems
            if (work_key, name) in by_cell and by_cell[work_key, name].details.get(field)
        }
        if values:
            shown = _seconds if field == "import_seconds" else _bytes
            cells = [shown(values[name]) if name in values else "-" for name in ("daf", *others)]
            yield f"| {title} | " + " | ".join(cells) + " | |"


def _row(title: str, row: dict[str, Result], others: list[str]) -> str:
    ours = row.get("daf")
    ours_median = ours.median if ours else None
    cells, reasons = [_time(ours) if ours else "-"], []
    for name in others:
        result = row.get(name)
        if result is None or result.problem == "not offered":
            cells.append("-")
        elif result.median is None:
            cells.append("see notes" if result.problem else "-")
        elif ours_median is None:
            cells.append(_time(result))
        else:
            ratio = result.median / ours_median
            mark = "" if len(result.times) >= FEW_TIMES else "*"
            is_loss = ratio < 1
            cells.append(f"**{_ratio(ratio)} x**{mark}" if is_loss else f"{_ratio(ratio)} x{mark}")
            if is_loss and not name.startswith("daf"):
                reasons.append(reason(result.work, name))
    return f"| {title} | " + " | ".join(cells) + f" | {'; '.join(dict.fromkeys(reasons))} |"


def _notes(results: list[Result]) -> Iterable[str]:
    problems: dict[tuple[str, str], list[str]] = {}
    for result in results:
        if result.problem and result.problem != "not offered":
            problems.setdefault((result.system, result.problem), []).append(result.work.title)
        elif result.details.get("resident_share", 0) > 0.05:
            share = result.details["resident_share"]
            problem = f"{share:.0%} of its files stayed in the cache"
            problems.setdefault((result.system, problem), []).append(result.work.title)
    if problems:
        yield ""
        for (name, problem), titles in problems.items():
            yield f"- {INFOS[name].title}: {problem.replace('|', '/')} ({', '.join(titles)})"


def _time(result: Result) -> str:
    if result.median is None:
        return "see notes" if result.problem else "-"
    low, high = result.spread
    unit, factor = ("s", 1.0) if result.median >= 1 else ("ms", 1e3)
    mark = "" if len(result.times) >= FEW_TIMES else "*"
    numbers = [_number(factor * value) for value in (result.median, low, high)]
    return f"{numbers[0]} {unit} ({numbers[1]}-{numbers[2]}){mark}"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _ratio(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}" if value < 1 else f"{value:.1f}"


def _bytes(value: float) -> str:
    return f"{value / 1e6:,.0f} MB" if value >= 1e6 else f"{value / 1e6:.1f} MB"


def _seconds(value: float) -> str:
    return f"{value:.2f} s"
