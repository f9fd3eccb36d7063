"""Actions of a system's page, without the user interface."""

from __future__ import annotations

import dataclasses
import secrets
import shutil
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vergence import catalogue
from vergence.app import picking, shelf
from vergence.app.files import shown
from vergence.app.form import FILES, PICKED, Field, filled, form
from vergence.app.jobs import INPUTS, Job, Jobs
from vergence.app.limits import Limits
from vergence.app.uploads import Upload, check, place, weight
from vergence.contract.inputs import Kind
from vergence.contract.system import AnySystem
from vergence.core.errors import VergenceError
from vergence.core.progress import about_minutes
from vergence.engine.weights import identify
from vergence.reading.tables import read_json

EXAMPLE = "example"
"""A folder beside a system's code: ``inputs.json`` by field, and the files it names."""


class Room:
    """Bytes of uploads that were announced and are not written yet: what is written is counted on the disk."""

    def __init__(self) -> None:
        self.reserved = 0
        self._lock = threading.Lock()

    def reserve(self, size: int, gallery: Gallery) -> None:
        """Refuse uploads that would fill the disk."""
        with self._lock:
            if size + self.reserved + weight(gallery.uploads) > gallery.limits.folder_mb * 10**6:
                raise VergenceError("there is no room for more uploads at the moment: please try again later")
            self.reserved += size

    def release(self, size: int) -> None:
        with self._lock:
            self.reserved -= size


@dataclass(frozen=True)
class Gallery:
    """State shared by all pages."""

    runs: Path
    limits: Limits
    uploads: Path
    """Folder of all uploads; no file outside it is read."""
    jobs: Jobs
    room: Room = dataclasses.field(default_factory=Room)


@dataclass(frozen=True)
class Demo:
    """The demo of one system."""

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
        """The uploads of a field, after checking them."""
        paths = [] if given is None else [given] if isinstance(given, str) else list(given)
        return check(field, paths, self.gallery.uploads, self.gallery.limits)

    def picture(self, field: Field, given: Any) -> Any:
        """The picture to click on: the first of the uploads."""
        found = self.checked(field, given)
        return picking.original(field.kind, found[0].path, self.gallery.limits) if found else None

    # What can run ---------------------------------------------------------------------------------------------------

    def ready(self) -> bool:
        """Whether some prediction can run now: it needs no weights, or there are some."""
        free = not self.system.offers("build") or self.system.offers("needs_model")
        return free or bool(shelf.weights(self.name, self.gallery.runs))

    def takes(self, weights: str) -> set[str]:
        """The fields that fit the chosen weights; none if nothing can run, and all if no weights are chosen."""
        listed = shelf.weights(self.name, self.gallery.runs) if self.system.offers("build") else []
        chosen = next((w.path for w in listed if w.id == weights), None)
        known = {field.name for field in self.fields} if self.ready() else set[str]()
        return known & set(self.system.inputs_of(identify(chosen).config)) if chosen else known

    # Work -----------------------------------------------------------------------------------------------------------

    def begin(self, values: Mapping[str, Any], weights: str) -> Job:
        """Check all inputs and submit the prediction. ``values`` holds uploads as paths and places as clicks."""
        taken = self.takes(weights) or {f.name for f in self.fields}  # what was given for other weights is left alone
        values = {name: value if name in taken else None for name, value in values.items()}
        uploads = {f.name: self.checked(f, values.get(f.name)) for f in self.fields if f.kind in FILES}
        folder = self.gallery.jobs.new_folder()
        try:
            inputs_by_name = dict(values)
            for field in self.fields:
                if field.kind in FILES:
                    inputs_by_name[field.name] = place(field, uploads[field.name], folder / INPUTS, self.gallery.limits)
                elif field.kind in PICKED:
                    inputs_by_name[field.name] = picking.chosen(field.kind, values.get(field.name) or ())
            inputs = filled(self.system, inputs_by_name, taken)
            path = self._weights(weights, inputs) if self.system.needs_model(inputs) else None
            return self.gallery.jobs.predict(self.name, inputs, path, folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _weights(self, id: str, inputs: Any) -> Path | None:
        """The path of listed weights; no other file is opened. None if none are named and the system can do without."""
        listed = shelf.weights(self.name, self.gallery.runs)
        chosen = next((w.path for w in listed if w.id == id), listed[0].path if listed and not id else None)
        if chosen is None and (id or not self.system.does_without(inputs)):
            raise VergenceError(f"there are no trained weights of {self.name} yet: train some first")
        return chosen

    def train(self) -> Job:
        if not self.system.trains:
            raise self.system.not_offered("training")
        return self.gallery.jobs.train(self.name, self.gallery.runs)

    def offer(self) -> str:
        """What to do if there are no weights yet."""
        if not self.system.trains:
            return f"There are no weights of {self.name} here yet: train some with `vergence run {self.name}`."
        took = f", {about_minutes(self.system.settings.minutes)} on two cores" if self.system.settings.minutes else ""
        return f"There are no trained weights of {self.name} here yet. Train the small version first{took}."

    # Example --------------------------------------------------------------------------------------------------------

    @property
    def has_example(self) -> bool:
        return catalogue.example(self.name) is not None

    def example_fields(self) -> set[str]:
        """The fields that the example fills."""
        values = read_json(catalogue.folder(self.name) / EXAMPLE / "inputs.json")
        return set(values) & {field.name for field in self.fields}

    def example(self) -> dict[str, Any]:
        """The system's example inputs; files are copied to the uploads and expire like them."""
        source = catalogue.folder(self.name) / EXAMPLE
        values = read_json(source / "inputs.json")
        target = self.gallery.uploads / f"example-{secrets.token_hex(8)}"
        target.mkdir(parents=True)
        for field in self.fields:
            if field.kind in FILES and field.name in values:
                names = values[field.name] if isinstance(values[field.name], list) else [values[field.name]]
                copies = [shutil.copyfile(source / name, target / Path(name).name) for name in names]
                values[field.name] = list(map(str, copies)) if field.several else str(copies[0])
        return dict(values)


def sentence(work: Callable[[], Any]) -> tuple[Any, str]:
    """The result of ``work``, or an error message for the visitor; unexpected errors are printed to the terminal."""
    try:
        return work(), ""
    except VergenceError as error:
        return None, shown(" ".join(str(error).split()))
    except Exception:
        traceback.print_exc(file=sys.stderr)
        return None, "unexpected error; see the terminal that runs the gallery"


def clicks_of(example: Sequence[Sequence[float]], field: Field) -> list[list[float]]:
    """The clicks that choose these points or boxes."""
    if field.kind is Kind.BOXES:
        return [corner for x, y, w, h in example for corner in ([x, y], [x + w, y + h])]
    return [list(point) for point in example]
