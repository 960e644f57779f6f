"""Lines of the prompt: read with history, completion and colours, by prompt_toolkit."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias

from daf_query.cli._colours import has_colours
from daf_query.completion import SqlCompleter
from daf_query.syntax import is_ended
from daf_storage.spi import optional_import

ReadLine: TypeAlias = Callable[[], str]
"""Reads what is typed; raises KeyboardInterrupt for Ctrl-C and EOFError for Ctrl-D."""

LEAVING: Final = ("quit", "exit")
"""Words that leave the prompt, also without a dot."""

_PROMPT: Final = "daf> "
_CONTINUATION: Final = "...> "
_MOST_REMEMBERED: Final = 10_000
_EXTRA: Final = "prompt"
_STYLE: Final = {
    "pygments.keyword": "bold ansigreen",
    "pygments.name.builtin": "ansigreen",
    "pygments.literal.string": "ansimagenta",
    "pygments.literal.string.symbol": "ansicyan",
    "pygments.literal.number": "ansimagenta",
    "pygments.comment": "italic",
}
"""Colours of the terminal's own palette, which can be read on a dark and on a light ground."""


def require_prompt() -> None:
    """Raise an error that says what to install, if something is missing."""
    for module in ("prompt_toolkit", "pygments"):
        optional_import(module, extra=_EXTRA)


def history_path() -> Path:
    """Return the file of the history, in the folder for state of programs."""
    state = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(state) if state.startswith("/") else Path.home() / ".local" / "state"
    return folder / "daf" / "sql_history"


def is_complete(text: str) -> bool:
    """Return whether Enter runs what is typed: a command, or statements with their semicolon.

    >>> is_complete("SELECT ';'"), is_complete("SELECT 1;"), is_complete(".tables")
    (False, True, True)
    """
    plain = text.strip()
    return plain.startswith(".") or plain.lower() in LEAVING or is_ended(text)


def line_reader(completer: SqlCompleter) -> ReadLine:
    """Return what reads from the terminal.

    Raises
    ------
    MissingDependencyError
        The extra ``prompt`` is not installed.
    """
    shortcuts = optional_import("prompt_toolkit.shortcuts", extra=_EXTRA)
    history = _History()
    session = shortcuts.PromptSession(
        _PROMPT,
        multiline=True,
        prompt_continuation=lambda *_: _CONTINUATION,
        completer=_PromptCompleter(completer),
        complete_in_thread=True,
        complete_while_typing=True,
        history=history.in_memory,
        key_bindings=_key_bindings(),
        **_colours(),
    )

    def read() -> str:
        text: str = session.prompt()
        history.store(text)
        return text

    return read


def _colours() -> dict[str, Any]:
    """Return what makes SQL coloured, or all plain."""
    if not has_colours(sys.stdout):
        depth = optional_import("prompt_toolkit.output", extra=_EXTRA).ColorDepth
        return {"color_depth": depth.DEPTH_1_BIT}
    lexers = optional_import("prompt_toolkit.lexers", extra=_EXTRA)
    styles = optional_import("prompt_toolkit.styles", extra=_EXTRA)
    sql = optional_import("pygments.lexers.sql", extra=_EXTRA)
    return {
        "lexer": lexers.PygmentsLexer(sql.SqlLexer),
        "style": styles.Style.from_dict(_STYLE),
        "include_default_pygments_style": False,
    }


def _key_bindings() -> Any:
    """Return what Enter does: it takes a completion, runs what is complete, or begins a line."""
    bindings = optional_import("prompt_toolkit.key_binding", extra=_EXTRA).KeyBindings()
    filters = optional_import("prompt_toolkit.filters", extra=_EXTRA)
    is_typing = filters.has_focus("DEFAULT_BUFFER")

    @bindings.add("enter", filter=is_typing)  # type: ignore[untyped-decorator] # it has no types here
    def _(event: Any) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion:
            buffer.complete_state = None
        elif is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return bindings


class _PromptCompleter:
    """Completions as prompt_toolkit has them."""

    def __init__(self, completer: SqlCompleter) -> None:
        self._completer = completer
        module = optional_import("prompt_toolkit.completion", extra=_EXTRA)
        self._completion: Any = module.Completion

    def get_completions(self, document: Any, event: Any) -> Iterator[Any]:
        """Yield the completions of what is typed; before a word begins, only if asked for."""
        text, cursor = document.text, document.cursor_position
        if text.lstrip().startswith("."):
            return
        is_begun = cursor > 0 and not text[cursor - 1].isspace() and text[cursor - 1] not in "(,;"
        if not is_begun and not event.completion_requested:
            return
        completions = []
        with contextlib.suppress(Exception):  # what goes wrong, the query says when it runs
            completions = self._completer.completions(text, cursor)
        for each in completions:
            yield self._completion(
                each.text,
                start_position=each.start - cursor,
                display=each.name,
                display_meta=each.kind,
            )


class _History:
    """What was typed, in this run and earlier ones; kept in memory if the file cannot be."""

    def __init__(self) -> None:
        module = optional_import("prompt_toolkit.history", extra=_EXTRA)
        self._file: Any = None
        remembered: list[str] = []
        with contextlib.suppress(OSError, RuntimeError):  # no such home, or it is read-only
            path = history_path()
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
            file = module.FileHistory(str(path))
            remembered = list(islice(file.load_history_strings(), _MOST_REMEMBERED))
            self._file = file
        self.in_memory: Any = module.InMemoryHistory(remembered[::-1])
        self._last = remembered[0] if remembered else ""

    def store(self, text: str) -> None:
        """Append to the file what is not what was typed just before."""
        if self._file is None or not text.strip() or text == self._last:
            return
        self._last = text
        with contextlib.suppress(OSError):
            self._file.store_string(text)
