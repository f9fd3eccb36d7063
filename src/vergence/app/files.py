"""Files of the runs folder and of jobs: opened without following links, and shown under names of valid text."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import BinaryIO

from vergence.core.errors import VergenceError


def open_inside(path: Path, folder: Path) -> BinaryIO:
    """Open a regular file below a folder. It is not a link, and no link on the way to it leads outside."""
    wrong = VergenceError(f"{shown(path.name)} is not there: expected a file inside its folder")
    try:
        # Opening a pipe without O_NONBLOCK would wait for its other end.
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        raise wrong from None
    try:
        opened, real = os.fstat(number), path.resolve(strict=True)
        # The path may have changed since it was opened.
        same = os.path.samestat(opened, real.stat()) and real.is_relative_to(folder.resolve())
        if stat.S_ISREG(opened.st_mode) and same:
            return os.fdopen(number, "rb")
    except (OSError, RuntimeError):
        pass
    os.close(number)
    raise wrong


def is_inside(path: Path, folder: Path) -> bool:
    """Whether :func:`open_inside` opens a file."""
    try:
        open_inside(path, folder).close()
    except VergenceError:
        return False
    return True


def shown(text: str) -> str:
    """Text that can be encoded: bytes of file names that are not UTF-8 become ``~FF``."""
    readable = re.sub("[\udc80-\udcff]", lambda found: f"~{ord(found[0]) - 0xDC00:02X}", text)
    return readable.encode("utf-8", "replace").decode()
