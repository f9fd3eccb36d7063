"""Errors written for the person who reads them: one sentence, no traceback on the command line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class VergenceError(Exception):
    """Something given was wrong or missing. The message is one sentence that names it and says what was expected."""

    exit_code = 2


class Several(VergenceError):
    """Several things of a kind were wrong: the sentence is the first one's, and ``each`` has them all."""

    def __init__(self, each: Sequence[str]) -> None:
        super().__init__(each[0] + (f" (and {len(each) - 1} more like it)" if len(each) > 1 else ""))
        self.each = tuple(each)


class NotOffered(VergenceError):
    """A system was asked for something its method has no use for."""


class Diverged(VergenceError):
    """A loss stopped being finite; nothing was wrong with the command."""

    exit_code = 1


class Cancelled(VergenceError):
    """Someone asked the work to stop; whoever runs it saves what there is."""

    exit_code = 130


class Interrupted(VergenceError):
    """The run was asked to stop, and has saved what it had."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number


def reason(error: BaseException) -> str:
    """What another library's error says, in one line; its kind if it says nothing."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`` (did you mean 'snl'?)`` when something known is near, otherwise what there is to choose from."""
    known = sorted(known)
    near = difflib.get_close_matches(word, known, n=3, cutoff=0.5)
    if near:
        return f" (did you mean {' or '.join(map(repr, near))}?)"
    return f" (there is {', '.join(map(repr, known))})" if known else " (there is none)"
