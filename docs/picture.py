"""Store a system's title picture that was not made by ``vergence run``.

``python docs/picture.py NAME FILE CAPTION COMMAND`` writes ``results/picture.png`` and ``results/picture.json``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from vergence.studies.results import store_picture

if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    name, file, caption, command = sys.argv[1:]
    print(store_picture(name, Path(file), caption, command))
