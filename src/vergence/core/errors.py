"""Errors written for the person who reads them: one sentence, no traceback on the command line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class VergenceError(Exception):
    """An input was wrong or missing; the message is one sentence that names it and says what was expected."""

    exit_code = 2


class Several(VergenceError):
    """Several problems of one kind: the message is the first one's, and ``each`` has them all."""

    def __init__(self, each: Sequence[str]) -> None:
        super().__init__(each[0] + (f" (and {len(each) - 1} more like it)" if len(each) > 1 else ""))
        self.each = tuple(each)


class NotOffered(VergenceError):
    """A system was asked for something that its method does not provide."""


class Diverged(VergenceError):
    """Training diverged: a loss or weight is not finite. The command itself was valid."""

    exit_code = 1


class Cancelled(VergenceError):
    """The work was asked to stop; the caller saves its state."""

    exit_code = 130


class Interrupted(VergenceError):
    """The run was stopped by a signal, after saving its state."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number


def reason(error: BaseException) -> str:
    """The first line of another library's error message; the error's type if the message is empty."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`` (did you mean 'snl'?)`` if a known name is close, otherwise the list of known names."""
    known = sorted(known)
    near = difflib.get_close_matches(word, known, n=3, cutoff=0.5)
    if near:
        return f" (did you mean {' or '.join(map(repr, near))}?)"
    return f" (there is {', '.join(map(repr, known))})" if known else " (there is none)"
