"""What happens on a system's page when a visitor does something, without the page itself."""

from __future__ import annotations

import secrets
import shutil
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vergence import catalogue
from vergence.app import picking, shelf
from vergence.app.form import FILES, PICKED, Field, filled, form
from vergence.app.jobs import INPUTS, Job, Jobs
from vergence.app.limits import Limits
from vergence.app.uploads import Upload, check, place, weight
from vergence.contract.inputs import Kind
from vergence.contract.system import AnySystem
from vergence.core.errors import VergenceError
from vergence.core.files import read_json

EXAMPLE = "example"
"""A folder beside a system's code: ``inputs.json`` by field, and the files it names."""


@dataclass(frozen=True)
class Gallery:
    """What all pages share."""

    runs: Path
    limits: Limits
    uploads: Path
    """Whatever visitors send lies below it, and only that is read."""
    jobs: Jobs


@dataclass(frozen=True)
class Demo:
    """One system, ready to be tried."""

    gallery: Gallery
    system: AnySystem

    @property
    def name(self) -> str:
        return self.system.about.name

    @property
    def fields(self) -> tuple[Field, ...]:
        return form(self.system)

    def field(self, name: str) -> Field:
        return next(field for field in self.fields if field.name == name)

    # Files and places -----------------------------------------------------------------------------------------------

    def checked(self, field: Field, given: Any) -> list[Upload]:
        """The uploads of a field, looked at."""
        paths = [] if given is None else [given] if isinstance(given, str) else list(given)
        return check(field, paths, self.gallery.uploads, self.gallery.limits)

    def picture(self, field: Field, given: Any) -> Any:
        """What a visitor clicks on: the first of the uploads as a picture."""
        found = self.checked(field, given)
        return picking.original(field.kind, found[0].path, self.gallery.limits) if found else None

    # Work -----------------------------------------------------------------------------------------------------------

    def begin(self, values: Mapping[str, Any], weights: str) -> Job:
        """Check everything and order the prediction. ``values`` holds uploads as paths and places as clicks."""
        uploads = {f.name: self.checked(f, values.get(f.name)) for f in self.fields if f.kind in FILES}
        folder = self.gallery.jobs.new_folder()
        try:
            given = dict(values)
            for field in self.fields:
                if field.kind in FILES:
                    given[field.name] = place(field, uploads[field.name], folder / INPUTS, self.gallery.limits)
                elif field.kind in PICKED:
                    given[field.name] = picking.chosen(field.kind, values.get(field.name) or ())
            inputs = filled(self.system, given)
            path = self._weights(weights) if self.system.needs_model(inputs) else None
            return self.gallery.jobs.predict(self.name, inputs, path, folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _weights(self, id: str) -> Path:
        """One of the weights listed; nothing else is ever opened."""
        found = shelf.weights(self.name, self.gallery.runs)
        chosen = next((w.path for w in found if w.id == id), found[0].path if found and not id else None)
        if chosen is None:
            raise VergenceError(f"there are no trained weights of {self.name} yet: train some first")
        return chosen

    def train(self) -> Job:
        if not self.system.trains:
            raise self.system.not_offered("training")
        return self.gallery.jobs.train(self.name, self.gallery.runs)

    def offer(self) -> str:
        """What to do where there are no weights yet."""
        if not self.system.trains:
            return f"There are no weights of {self.name} here yet: make some with `vergence run {self.name}`."
        took = f", about {self.system.settings.minutes:g} minutes on two cores" if self.system.settings.minutes else ""
        return f"There are no trained weights of {self.name} here yet. Train the small version first{took}."

    # Example --------------------------------------------------------------------------------------------------------

    @property
    def has_example(self) -> bool:
        return (catalogue.folder(self.name) / EXAMPLE / "inputs.json").is_file()

    def example(self) -> dict[str, Any]:
        """The inputs that the system comes with; files are copied to where uploads lie, and go as they do."""
        source = catalogue.folder(self.name) / EXAMPLE
        given = read_json(source / "inputs.json")
        target = self.gallery.uploads / f"example-{secrets.token_hex(8)}"
        target.mkdir(parents=True)
        for field in self.fields:
            if field.kind in FILES and field.name in given:
                names = given[field.name] if isinstance(given[field.name], list) else [given[field.name]]
                copies = [shutil.copyfile(source / name, target / Path(name).name) for name in names]
                given[field.name] = list(map(str, copies)) if field.several else str(copies[0])
        return dict(given)


def room_for(size: int, gallery: Gallery) -> None:
    """Refuse what would fill the disk."""
    if size + weight(gallery.uploads) > gallery.limits.folder_mb * 10**6:
        raise VergenceError("there is no room for more uploads at the moment: please try again later")


def sentence(work: Callable[[], Any]) -> tuple[Any, str]:
    """What the work gives, or a sentence for the visitor; whatever else went wrong is for the terminal."""
    try:
        return work(), ""
    except VergenceError as error:
        return None, " ".join(str(error).split())
    except Exception:
        traceback.print_exc(file=sys.stderr)
        return None, "this should have worked and did not; the terminal that runs the gallery says why"


def clicks_of(example: Sequence[Sequence[float]], field: Field) -> list[list[float]]:
    """Points or boxes as the clicks that choose them."""
    if field.kind is Kind.BOXES:
        return [corner for x, y, w, h in example for corner in ([x, y], [x + w, y + h])]
    return [list(point) for point in example]
