"""The Gradio pages: the start page, and one page per system with a form generated from its typed inputs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr

from vergence import catalogue
from vergence.app import parts, picking, shelf
from vergence.app.demo import Demo, Gallery, clicks_of, sentence
from vergence.app.form import FILES, PICKED, Field, name_of
from vergence.app.uploads import Upload
from vergence.contract.about import About
from vergence.contract.inputs import Kind
from vergence.core.errors import VergenceError
from vergence.studies import results

EVERY = "every task"
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
AT_ONCE: dict[str, Any] = {**QUIET, "queue": False}
"""For events at page load, answered without the queue: a queued answer may arrive before the page listens, and is then
lost."""
Clicks = dict[str, Any]
NO_CLICKS: Clicks = {"on": "", "clicks": []}
"""Clicks on a file, and the file they belong to."""
LOOK = 0.4
"""Polling interval of a job in seconds."""


def build(gallery: Gallery) -> gr.Blocks:
    """All pages; a system in the catalogue gets one automatically."""
    pages = shelf.systems()
    with gr.Blocks(title="Vergence", analytics_enabled=False, fill_width=True) as site:
        gr.HTML(parts.front(len(pages)))
        with gr.Row():
            words = gr.Textbox(
                placeholder="Search: attention, tracking, ECCV 2020 …",
                show_label=False,
                max_lines=1,
                scale=3,
                elem_id="search",
                autofocus=True,
            )
            task = gr.Dropdown(
                [EVERY, *shelf.tasks(pages)], value=EVERY, show_label=False, scale=1, elem_id="task", filterable=False
            )
        wall = gr.HTML(_wall(pages, gallery), elem_id="wall")

        def find(typed: str, chosen: str) -> str:
            task = "" if chosen in (EVERY, None) else chosen
            return _wall(catalogue.matching(pages, typed or "", task), gallery)

        site.load(find, [words, task], wall, **AT_ONCE)
        gr.on([words.input, task.change], find, [words, task], wall, trigger_mode="always_last", **QUIET)
    for page in pages:
        try:
            system = catalogue.load(page.name)
        except (VergenceError, ImportError) as error:
            print(f"vergence gallery: {page.name} has no page: {error}")
            continue
        with site.route(page.name, f"/{page.name}", show_in_navbar=False):
            _SystemPage(Demo(gallery, system)).draw(site)
    return site


def _wall(pages: Sequence[About], gallery: Gallery) -> str:
    waiting = {page.name: sentence(partial(shelf.waits, page.name, gallery.runs))[0] or "" for page in pages}
    return parts.cards(pages, waiting)


def _caption(name: str) -> str:
    """Caption of a system's picture."""
    found, _ = sentence(lambda: results.picture(name))
    return found.caption if found is not None and catalogue.picture(name) is not None else ""


class _Picker(NamedTuple):
    """A picture to click on, a text with the choice, and a reset button."""

    picture: Any
    group: Any
    told: Any
    again: Any


@dataclass
class _SystemPage:
    demo: Demo
    components: dict[str, Any] = field(default_factory=dict)
    """Components by field (for places: the state with the clicks)."""
    notes: dict[str, Any] = field(default_factory=dict)
    """Notes on uploads, by file field."""
    pickers: dict[str, _Picker] = field(default_factory=dict)
    """Pickers, by field of places."""
    shown: set[str] = field(default_factory=set)
    """Fields that fit the weights chosen first."""

    def draw(self, site: gr.Blocks) -> None:
        page = self.demo.system.about
        gr.HTML(parts.head(page))
        if self.demo.fields:
            gr.HTML(parts.heading("Try it"))
            self._demo(site)
        table, wrong = sentence(lambda: shelf.table(page.name))
        gr.HTML(parts.wrong(wrong) if wrong else parts.measured(page, table, _caption(page.name)), elem_id="measured")
        gr.HTML(parts.heading("Reports"))
        reports = gr.HTML(elem_id="reports")
        gr.HTML(parts.heading("Claims"))
        claims = gr.HTML(elem_id="claims")
        site.load(self._measured, None, [reports, claims], **AT_ONCE)

    def _measured(self) -> tuple[str, str]:
        page, root = self.demo.system.about, self.demo.gallery.runs
        found, wrong = sentence(lambda: shelf.reports(page.name, root))
        reports = parts.wrong(wrong) if wrong else parts.reports(page, found)
        judged, wrong = sentence(lambda: shelf.claims(page.name, root))
        return reports, parts.wrong(wrong) if wrong else parts.claims(page, judged)

    # The form -------------------------------------------------------------------------------------------------------

    def _demo(self, site: gr.Blocks) -> None:
        demo = self.demo
        with gr.Row(equal_height=False):
            with gr.Column(scale=2, min_width=320):
                # The current state, so that the layout does not move when the page loads.
                choices, built = self._weights(), demo.system.offers("build")
                taken = sentence(lambda: demo.takes(choices[0][1] if choices else ""))[0]
                self.shown = {f.name for f in demo.fields} if taken is None else taken
                weights = gr.Dropdown(
                    choices, value=choices[0][1] if choices else None, label="weights", visible=bool(choices),
                    elem_id="weights", interactive=True,
                )  # fmt: skip
                offer = gr.HTML(parts.note(demo.offer()), visible=built and not choices)
                train = gr.Button("Train it now", visible=built and not choices and demo.system.trains, elem_id="train")
                example = gr.Button("Use the example", elem_id="example", visible=demo.has_example and demo.ready())
                settings = [f for f in demo.fields if f.kind not in (*FILES, *PICKED)]
                for one in demo.fields:
                    if one not in settings:
                        self._ask(one)
                asked = [f for f in settings if f.required]
                for one in asked:
                    self._ask(one)
                if len(asked) < len(settings):
                    with gr.Accordion("Settings", open=False):
                        for one in settings:
                            if one not in asked:
                                self._ask(one)
                run = gr.Button("Run", variant="primary", elem_id="run", visible=demo.ready())
            with gr.Column(scale=3, min_width=320):
                result = gr.HTML(parts.note("The result shows here."), elem_id="result")
                stop = gr.Button("Cancel", visible=False, elem_id="cancel")
        token = gr.State("")
        self._wire()
        names = list(self.components)
        fitting = [*self._visible(), example]
        status = [weights, offer, train, run, *fitting]
        site.load(self._status, None, status, **AT_ONCE)
        weights.change(self._fitting, weights, fitting, **QUIET)

        def begin(chosen: str | None, *values: Any) -> tuple[Any, ...]:
            by_name = dict(zip(names, values, strict=True))
            by_name |= {name: by_name[name]["clicks"] for name in self.pickers}
            job, wrong = sentence(lambda: demo.begin(by_name, chosen or ""))
            return self._begun(job, wrong)

        def begin_training() -> tuple[Any, ...]:
            return self._begun(*sentence(demo.train))

        buttons = [run, train, stop]
        started = run.click(begin, [weights, *self.components.values()], [token, result, *buttons], **QUIET)
        started.then(self._follow, token, [result, *buttons], concurrency_limit=None, **QUIET)
        ordered = train.click(begin_training, None, [token, result, *buttons], **QUIET)
        followed = ordered.then(self._follow, token, [result, *buttons], concurrency_limit=None, **QUIET)
        followed.then(self._status, None, status, **QUIET)
        stop.click(self._stop, token, stop, **AT_ONCE)
        outputs = [self.components[name] for name in names]
        example.click(lambda: self._example(names), None, outputs, **QUIET)

    def _status(self) -> tuple[Any, ...]:
        """The available weights, or the offer to train some; whether it can run, and the inputs that fit."""
        built, choices = self.demo.system.offers("build"), self._weights()
        first = choices[0][1] if choices else None
        chosen = gr.update(choices=choices, value=first, visible=bool(choices)) if built else gr.update(visible=False)
        offer = built and not choices
        shown = [gr.update(visible=each) for each in (offer, offer and self.demo.system.trains, self.demo.ready())]
        return chosen, *shown, *self._fitting(first)

    def _visible(self) -> list[Any]:
        """The components that a choice of weights shows or hides: inputs, and the notes below them."""
        asked = [f.name for f in self.demo.fields if f.kind not in PICKED]
        return [self.components[name] for name in asked] + [self.notes[name] for name in asked if name in self.notes]

    def _fitting(self, chosen: str | None) -> tuple[Any, ...]:
        """Only the inputs that fit the chosen weights, and the example if it has no others."""
        demo = self.demo
        taken, wrong = sentence(lambda: demo.takes(chosen or ""))
        if wrong:  # unreadable weights: an attempt to run says so
            taken = {field.name for field in demo.fields}
        asked = [f.name for f in demo.fields if f.kind not in PICKED]
        names = [*asked, *(name for name in asked if name in self.notes)]
        example = demo.has_example and demo.example_fields() <= taken
        return *(gr.update(visible=name in taken) for name in names), gr.update(visible=example)

    def _weights(self) -> list[tuple[str, str]]:
        """Titles and ids of the available weights."""
        if not self.demo.system.offers("build"):
            return []
        found, _ = sentence(lambda: shelf.weights(self.demo.name, self.demo.gallery.runs))
        return [(w.title, w.id) for w in found or []]

    def _ask(self, one: Field) -> None:
        if one.kind in FILES:
            self._files(one)
        elif one.kind not in PICKED:  # drawn with the picture on which they are chosen
            self.components[one.name] = _setting(one)

    def _files(self, one: Field) -> None:
        label = one.label + ("" if one.required else " (optional)")
        self.components[one.name] = gr.File(
            file_count="multiple" if one.several else "single",
            label=f"{label}: {name_of(one.kind).rstrip(',')}",
            elem_id=f"file-{one.name}",
            height=150,
            visible=one.name in self.shown,
        )
        shown = one.name in self.shown
        self.notes[one.name] = gr.HTML(parts.note(one.help), elem_id=f"note-{one.name}", visible=shown)
        for picked in self.demo.fields:
            if picked.on and picked.on[-1] == one.name:  # all its pictures exist by now
                self._picker(picked)

    def _picker(self, one: Field) -> None:
        with gr.Group(visible=False) as group:
            picture = gr.Image(
                interactive=False, show_label=False, elem_classes="picker", elem_id=f"picker-{one.name}", buttons=[],
                format="png",
            )  # fmt: skip
        hint = gr.HTML(visible=False, elem_id=f"told-{one.name}")
        again = gr.Button("Choose again", size="sm", visible=False, elem_id=f"again-{one.name}")
        self.components[one.name] = gr.State(NO_CLICKS)
        self.pickers[one.name] = _Picker(picture, group, hint, again)

    def _wire(self) -> None:
        """Connect uploads and clicks, after all components exist."""
        for one in self.demo.fields:
            if one.kind in FILES:
                self._wire_files(one, next((f for f in self.demo.fields if one.name in f.on), None))
            elif one.name in self.pickers:
                self._wire_picker(one, self.pickers[one.name])

    def _wire_files(self, one: Field, picked: Field | None) -> None:
        def look(given: Any) -> tuple[list[Upload], str]:
            uploads, wrong = sentence(lambda: self.demo.checked(one, given))
            return uploads or [], parts.wrong(wrong) if wrong else parts.uploaded(uploads) or parts.note(one.help)

        def changed(given: Any, before: Clicks) -> tuple[Any, ...]:
            assert picked is not None
            uploads, text = look(given)
            if not uploads:
                return text, None, *[gr.update(visible=False)] * 3, NO_CLICKS
            # Clicks belong to one file and are cleared for another.
            same = before["on"] in (str(uploads[0].path), uploads[0].name)
            clicks = {"on": str(uploads[0].path), "clicks": before["clicks"] if same else []}
            view, hint = self._view(one, picked, given, clicks)
            show = gr.update(visible=view is not None)
            return text, view, show, gr.update(value=hint, visible=True), show, clicks

        files, note = self.components[one.name], self.notes[one.name]
        if picked is None:
            files.change(lambda given: look(given)[1], files, note, **QUIET)
        else:
            shown = self.pickers[picked.name]
            outputs = [note, shown.picture, shown.group, shown.told, shown.again]
            clicks = self.components[picked.name]
            files.change(changed, [files, clicks], [*outputs, clicks], **QUIET)

    def _view(self, source: Field, one: Field, given: Any, clicks: Clicks) -> tuple[Any, str]:
        """The picture with the chosen places, and a text about them."""
        picture, wrong = sentence(lambda: self.demo.picture(source, given))
        if picture is None:
            return None, parts.wrong(wrong)
        hint = parts.note(picking.told(one.kind, clicks["clicks"], one.required))
        return picking.shown(picture, one.kind, clicks["clicks"]), hint

    def _wire_picker(self, one: Field, shown: _Picker) -> None:
        sources = [self.demo.field(name) for name in one.on]

        def source_of(clicks: Clicks, given: tuple[Any, ...]) -> tuple[Field, Any]:
            for source, value in zip(sources, given, strict=True):
                uploads, _ = sentence(partial(self.demo.checked, source, value))
                if uploads and str(uploads[0].path) == clicks["on"]:
                    return source, value
            raise VergenceError("the upload no longer exists: please choose the file again")

        def pick(before: Clicks, event: gr.SelectData, *given: Any) -> tuple[Any, ...]:
            def work() -> tuple[Any, ...]:
                source, value = source_of(before, given)
                picture = self.demo.picture(source, value)
                after = before | {"clicks": picking.clicked(picture, one.kind, before["clicks"], event.index)}
                return after, *self._view(source, one, value, after)

            updates, wrong = sentence(work)
            return (before, gr.update(), parts.wrong(wrong)) if wrong else updates

        def clear(before: Clicks, *given: Any) -> tuple[Any, ...]:
            def work() -> tuple[Any, ...]:
                source, value = source_of(before, given)
                after = before | {"clicks": []}
                return after, *self._view(source, one, value, after)

            updates, wrong = sentence(work)
            return (before, gr.update(), parts.wrong(wrong)) if wrong else updates

        clicks = self.components[one.name]
        inputs = [clicks, *(self.components[name] for name in one.on)]
        outputs = [clicks, shown.picture, shown.told]
        shown.picture.select(pick, inputs, outputs, **QUIET)
        shown.again.click(clear, inputs, outputs, **QUIET)

    def _example(self, names: list[str]) -> list[Any]:
        given, _ = sentence(self.demo.example)
        return [self._given(given or {}, self.demo.field(name)) for name in names]

    def _given(self, given: dict[str, Any], one: Field) -> Any:
        """The example's value for a field; places belong to the example's file."""
        if one.kind not in PICKED:
            return given.get(one.name, gr.update())
        on = next((given[name] for name in one.on if given.get(name)), "")
        name = Path(on if isinstance(on, str) else on[0]).name
        return {"on": name, "clicks": clicks_of(given.get(one.name, ()), one)}

    # Jobs -----------------------------------------------------------------------------------------------------------

    def _begun(self, job: Any, wrong: str) -> tuple[Any, ...]:
        if job is None:
            return "", parts.wrong(wrong), gr.update(), gr.update(), gr.update(visible=False)
        shown = parts.job(job, self.demo.gallery.jobs.ahead(job))
        busy = gr.update(interactive=False)
        return job.token, shown, busy, busy, gr.update(visible=True, interactive=True)

    async def _follow(self, token: str) -> AsyncIterator[tuple[Any, ...]]:
        jobs = self.demo.gallery.jobs
        job = jobs.find(token) if token else None
        if job is None:
            yield gr.update(), *[gr.update()] * 3
            return
        try:
            while not job.over:
                yield parts.job(job, jobs.ahead(job)), gr.update(), gr.update(), gr.update()
                await asyncio.sleep(LOOK)
            ready = gr.update(interactive=True)
            yield parts.job(job, 0), ready, ready, gr.update(visible=False)
        finally:
            if not job.over and job.what == "prediction":  # the visitor has left
                jobs.cancel(job)

    def _stop(self, token: str) -> Any:
        job = self.demo.gallery.jobs.find(token) if token else None
        if job is not None:
            self.demo.gallery.jobs.cancel(job)
        return gr.update(interactive=False)


def _setting(one: Field) -> Any:
    if one.kind is Kind.NUMBER:
        return gr.Number(
            value=one.default, label=one.label, info=one.help, precision=0 if one.whole else None,
            elem_id=f"set-{one.name}",
        )  # fmt: skip
    if one.kind is Kind.CHOICE:
        return gr.Dropdown(
            list(one.choices), value=one.default if not one.required else one.choices[0], label=one.label,
            info=one.help, elem_id=f"set-{one.name}",
        )  # fmt: skip
    return gr.Textbox(value=one.default or "", label=one.label, info=one.help, elem_id=f"set-{one.name}")
