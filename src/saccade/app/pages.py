"""The pages in Gradio: the wall, and one page a system, its form drawn from the system's typed inputs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gradio as gr

from saccade import catalogue, results
from saccade.app import parts, picking, shelf
from saccade.app.demo import Demo, Gallery, clicks_of, sentence
from saccade.app.form import FILES, PICKED, SHOWN, Field, name_of
from saccade.errors import SaccadeError
from saccade.inputs import Kind

EVERY = "every task"
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
Clicks = dict[str, Any]
NO_CLICKS: Clicks = {"on": "", "clicks": []}
"""Places chosen on a file, and which file that is."""
LOOK = 0.4
"""Seconds between two looks at a job."""


def build(gallery: Gallery) -> gr.Blocks:
    """All pages: a system that joins the catalogue has one without a line here."""
    pages = shelf.systems()
    with gr.Blocks(title="Saccade", analytics_enabled=False, fill_width=True) as site:
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
        wall = gr.HTML(parts.cards(pages), elem_id="wall")

        def find(typed: str, chosen: str) -> str:
            return parts.cards(shelf.matching(pages, typed or "", "" if chosen in (EVERY, None) else chosen))

        gr.on([words.input, task.change], find, [words, task], wall, trigger_mode="always_last", **QUIET)
    for page in pages:
        try:
            system = catalogue.load(page.name)
        except (SaccadeError, ImportError) as error:
            print(f"saccade gallery: {page.name} has no page: {error}")
            continue
        with site.route(page.name, f"/{page.name}", show_in_navbar=False):
            _SystemPage(Demo(gallery, system)).draw(site)
    return site


def _caption(name: str) -> str:
    """What the picture that a system comes with shows."""
    found, _ = sentence(lambda: results.picture(name))
    return found.caption if found is not None and catalogue.picture(name) is not None else ""


@dataclass
class _SystemPage:
    demo: Demo
    components: dict[str, Any] = field(default_factory=dict)
    """By field: what its value comes from (for places: the clicks)."""
    pickers: dict[str, Any] = field(default_factory=dict)
    """By field of places: the picture to click on, what was chosen in words, and the button to begin again."""

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
        site.load(self._measured, None, [reports, claims], **QUIET)

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
                weights = gr.Dropdown([], label="weights", visible=False, elem_id="weights", interactive=True)
                offer = gr.HTML(visible=False)
                train = gr.Button("Train it now", visible=False, elem_id="train")
                example = gr.Button("Use the example", elem_id="example", visible=demo.has_example)
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
                run = gr.Button("Run", variant="primary", elem_id="run")
            with gr.Column(scale=3, min_width=320):
                result = gr.HTML(parts.note("The result shows here."), elem_id="result")
                stop = gr.Button("Cancel", visible=False, elem_id="cancel")
        token = gr.State("")
        self._wire_places()
        names = list(self.components)
        status = [weights, offer, train]
        site.load(self._status, None, status, **QUIET)

        def begin(chosen: str | None, *values: Any) -> tuple[Any, ...]:
            given = dict(zip(names, values, strict=True))
            given |= {name: given[name]["clicks"] for name in self.pickers}
            job, wrong = sentence(lambda: demo.begin(given, chosen or ""))
            return self._begun(job, wrong)

        def begin_training() -> tuple[Any, ...]:
            return self._begun(*sentence(demo.train))

        buttons = [run, train, stop]
        started = run.click(begin, [weights, *self.components.values()], [token, result, *buttons], **QUIET)
        started.then(self._follow, token, [result, *buttons], concurrency_limit=None, **QUIET)
        ordered = train.click(begin_training, None, [token, result, *buttons], **QUIET)
        followed = ordered.then(self._follow, token, [result, *buttons], concurrency_limit=None, **QUIET)
        followed.then(self._status, None, status, **QUIET)
        stop.click(self._stop, token, stop, queue=False, **QUIET)
        outputs = [self.components[name] for name in names]
        example.click(lambda: self._example(names), None, outputs, **QUIET)

    def _status(self) -> tuple[Any, ...]:
        """Which weights there are, or the offer to train some."""
        if not self.demo.system.offers("build"):
            return gr.update(visible=False), gr.update(visible=False), gr.update(visible=False)
        found, _ = sentence(lambda: shelf.weights(self.demo.name, self.demo.gallery.runs))
        choices = [(w.title, w.id) for w in found or []]
        chosen = gr.update(choices=choices, value=choices[0][1] if choices else None, visible=bool(choices))
        told = gr.update(value=parts.note(self.demo.offer()), visible=not choices)
        return chosen, told, gr.update(visible=not choices and self.demo.system.trains)

    def _ask(self, one: Field) -> None:
        if one.kind in FILES:
            self._files(one)
        elif one.kind not in PICKED:  # those are drawn with the picture that they are chosen on
            self.components[one.name] = _setting(one)

    def _files(self, one: Field) -> None:
        label = one.label + ("" if one.required else " (optional)")
        self.components[one.name] = files = gr.File(
            file_count="multiple" if one.several else "single",
            label=f"{label}: {name_of(one.kind).rstrip(',')}",
            elem_id=f"file-{one.name}",
            height=150,
        )
        note = gr.HTML(parts.note(one.help), elem_id=f"note-{one.name}")
        picked = next((f for f in self.demo.fields if f.on == one.name), None) if one.kind in SHOWN else None
        outputs = [note]
        if picked is not None:
            with gr.Group(visible=False) as group:
                picker = gr.Image(
                    interactive=False, show_label=False, elem_classes="picker", elem_id=f"picker-{picked.name}",
                    buttons=[], format="png",
                )  # fmt: skip
            told = gr.HTML(visible=False, elem_id=f"told-{picked.name}")
            again = gr.Button("Choose again", size="sm", visible=False, elem_id=f"again-{picked.name}")
            clicks = gr.State(NO_CLICKS)
            self.components[picked.name], self.pickers[picked.name] = clicks, (picker, told, again)
            outputs += [picker, group, told, again, clicks]

        def changed(given: Any, *before: Clicks) -> Any:
            found, wrong = sentence(lambda: self.demo.checked(one, given))
            text = parts.wrong(wrong) if wrong else parts.uploaded(found) or parts.note(one.help)
            if picked is None:
                return text
            # Clicks belong to one file: those of another are forgotten.
            kept = before[0] if found and before[0]["on"] in (str(found[0].path), found[0].name) else NO_CLICKS
            picture, more = sentence(lambda: self.demo.picture(one, given)) if found else (None, "")
            view = picking.shown(picture, picked.kind, kept["clicks"]) if picture is not None else None
            show = gr.update(visible=view is not None)
            told = parts.note(picking.told(picked.kind, kept["clicks"], picked.required))
            hint = gr.update(value=told, visible=view is not None)
            return parts.wrong(more) if more else text, view, show, hint, show, kept

        files.change(changed, [files, clicks] if picked is not None else files, outputs, **QUIET)

    def _wire_places(self) -> None:
        for one in self.demo.fields:
            if one.kind in PICKED and one.name in self.pickers:
                self._wire(one)

    def _wire(self, one: Field) -> None:
        files, clicks = self.components[one.on], self.components[one.name]
        picker, told, again = self.pickers[one.name]
        source = self.demo.field(one.on)

        def pick(given: Any, before: Clicks, event: gr.SelectData) -> tuple[Any, ...]:
            def work() -> tuple[Any, ...]:
                on, picture = self.demo.checked(source, given)[0], self.demo.picture(source, given)
                after = picking.clicked(picture, one.kind, before["clicks"], event.index)
                told = parts.note(picking.told(one.kind, after, one.required))
                return {"on": str(on.path), "clicks": after}, picking.shown(picture, one.kind, after), told

            found, wrong = sentence(work)
            return (before, gr.update(), parts.wrong(wrong)) if wrong else found

        def clear(given: Any) -> tuple[Any, ...]:
            picture, wrong = sentence(lambda: self.demo.picture(source, given))
            view = picking.shown(picture, one.kind, []) if picture is not None else None
            told = parts.wrong(wrong) if wrong else parts.note(picking.told(one.kind, [], one.required))
            return NO_CLICKS, view, told

        picker.select(pick, [files, clicks], [clicks, picker, told], **QUIET)
        again.click(clear, files, [clicks, picker, told], **QUIET)

    def _example(self, names: list[str]) -> list[Any]:
        given, _ = sentence(self.demo.example)
        return [self._given(given or {}, self.demo.field(name)) for name in names]

    def _given(self, given: dict[str, Any], one: Field) -> Any:
        """What an example gives to a field; places are put on the file that comes with them."""
        if one.kind not in PICKED:
            return given.get(one.name, gr.update())
        on = given.get(one.on) or ""
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
