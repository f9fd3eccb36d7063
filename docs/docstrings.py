"""Docstrings as Markdown: roles lose their prefix, tables and literal blocks keep their shape."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object


class Plain(Extension):
    """Converts docstrings while they are read, for the reference."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    """Convert reStructuredText markup to Markdown."""
    text = re.sub(r":(?:class|func|meth|mod|data|attr|obj):`~?([^`]+)`", r"`\1`", text)
    text = re.sub(r"^(={3,}(?: +={3,})+\n.*?^={3,}(?: +={3,})+\n.*?^={3,}(?: +={3,})+)$", r"```text\n\1\n```", text,
                  flags=re.S | re.M)  # fmt: skip
    return re.sub(r"::\n(?=\n {4})", ":\n", text)
