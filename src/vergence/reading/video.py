"""Videos, through FFmpeg's libraries: from local files only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from vergence.core.errors import VergenceError
from vergence.core.files import is_utf8
from vergence.reading.files import open_file, refusing
from vergence.reading.pictures import within_picture

LOCAL = {"protocol_whitelist": "file"}
"""A playlist must not fetch things from elsewhere."""


@contextmanager
def open_container(name: str, file: Any, **options: Any) -> Iterator[tuple[Any, Any]]:
    """A container and its first stream of moving pictures; ``name`` is what errors call it."""
    import av

    with ExitStack() as stack:
        with refusing(name, "a readable video"):
            if isinstance(file, Path) and not is_utf8(file):  # FFmpeg takes no other name
                file = stack.enter_context(open_file(file))
            container: Any = stack.enter_context(av.open(str(file) if isinstance(file, Path) else file, **options))
        streams = [s for s in container.streams.video if not s.disposition & av.stream.Disposition.attached_pic]
        if not streams:
            content = "only sound" if container.streams.audio else "nothing that moves"
            raise VergenceError(f"{name} has no pictures in it, {content}")
        if streams[0].codec_context is None:
            raise VergenceError(f"{name} is not a readable video: its codec is unknown")
        if streams[0].width > 0 and streams[0].height > 0:
            within_picture(streams[0].width, streams[0].height, name)
        yield container, streams[0]
