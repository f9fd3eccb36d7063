"""Graphs in GraphML."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

from vergence.core.errors import VergenceError
from vergence.reading.budget import within
from vergence.reading.files import read_text, refusing

GRAPHML = "readable GraphML"


def read_graphml(path: Path) -> Any:
    """A ``networkx`` graph. Declared entities, which can name other files and grow without end, are refused."""
    import networkx as nx

    text = read_text(path, GRAPHML)
    if "<!" in re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL):
        raise VergenceError(f"{path} is refused: it declares things that a graph does not need")
    within("points", text.count("<node") + text.count("<edge"), path)
    with refusing(path, GRAPHML):
        # Text, not bytes: an encoding that the file names is not looked up.
        return nx.read_graphml(io.BytesIO(re.sub(r"^\s*<\?xml.*?\?>", "", text, flags=re.DOTALL).encode()))
