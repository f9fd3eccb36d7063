"""Files that a system can use but Vergence does not ship, mostly pretrained weights.

An asset has a name, a source, a licence and a hash. It is looked for in the package that provides it and
below ``$VERGENCE_HOME/assets``; nothing is ever downloaded. If it is missing, the error says how to get it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from vergence.core.errors import VergenceError, did_you_mean
from vergence.core.files import home


@dataclass(frozen=True)
class Asset:
    """An external file."""

    what: str
    """Short description: "ResNet-50 trained on ImageNet"."""
    source: str
    """Its origin: an address, or the name of a package on PyPI."""
    licence: str
    file: str
    """Its file name below ``$VERGENCE_HOME/assets``; inside a package, a pattern that one file matches."""
    package: str = ""
    """The installed module that provides it."""
    extra: str = ""
    """The extra of Vergence that installs the package."""
    sha256: str = ""
    """SHA-256 of the file; a prefix is enough."""

    def find(self) -> Path | None:
        """Its path; None if it is not available."""
        if self.package:
            spec = find_spec(self.package)
            matches = sorted(Path(spec.origin).parent.glob(self.file)) if spec and spec.origin else []
            if len(matches) == 1:
                return matches[0]
        path = home() / "assets" / Path(self.file).name
        return path if path.is_file() else None

    def path(self) -> Path:
        """Its path, after checking the hash."""
        path = self.find()
        if path is None:
            raise VergenceError(f"{self.what}: not available: needs {self.needs}")
        if self.sha256:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            if not digest.startswith(self.sha256):
                raise VergenceError(f"{path} is not {self.what}: its SHA-256 begins with {digest[:12]}")
        return path

    @property
    def needs(self) -> str:
        """What is needed to get it."""
        if self.package:
            return f"the package {self.source} (pip install 'vergence[{self.extra}]')"
        return f"the file {self.file} from {self.source} in {home() / 'assets'}"


def resolve(name: str, assets: Mapping[str, Asset]) -> Path:
    """The file that ``config.pretrained`` names: an asset by its name, or a path."""
    if name in assets:
        return assets[name].path()
    path = Path(name).expanduser()
    if not path.exists():
        known = did_you_mean(name, assets) if assets else ""
        raise VergenceError(f"{path} does not exist: --pretrained names a weights file or an asset{known}; "
                            "--pretrained '' starts from random weights")  # fmt: skip
    return path
