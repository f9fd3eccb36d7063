"""The gallery's web server: the Gradio pages, and the pictures, reports and results that they show.

No path from a request is opened: a name selects from the catalogue and the runs folder, a token from the jobs of this
server. Pages load nothing from other servers, and HTML made by a system runs in a sandbox without access to the pages.
"""

from __future__ import annotations

import ipaddress
import os
import re
import shutil
import socket
import sys
import tempfile
import threading
import time
import warnings
import webbrowser
import zipfile
from collections.abc import Awaitable, Callable, Container, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

os.environ.update(  # before importing Gradio: no telemetry and no requests to other servers
    GRADIO_ANALYTICS_ENABLED="False", GRADIO_RUN_HISTORY="False", HF_HUB_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1"
)

import gradio as gr
import uvicorn
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import FileResponse, PlainTextResponse
from starlette.datastructures import Headers
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vergence import catalogue
from vergence.app import pages, parts, shelf
from vergence.app.demo import Gallery, sentence
from vergence.app.files import open_inside, shown
from vergence.app.jobs import OUTPUTS, Job, Jobs
from vergence.app.limits import Limits
from vergence.app.uploads import inside, sweep
from vergence.core.errors import VergenceError
from vergence.reading.tables import parse_json

LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")
OWN = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; media-src 'self' data: blob:; font-src 'self' data:; worker-src 'self' blob:; "
    "connect-src 'self' blob: data:; frame-src 'self'; frame-ancestors 'self'; base-uri 'self'; form-action 'self'"
)
"""Content policy of the Gradio pages: everything from this server, nothing from others."""
APART = "sandbox allow-scripts; default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; "
SCRIPTED = APART + "script-src 'unsafe-inline' blob:; worker-src blob:; frame-ancestors 'self'"
"""Content policy of HTML made by a system: scripts in a sandbox, no requests."""
STILL = "sandbox allow-popups; default-src 'none'; img-src data:; style-src 'unsafe-inline'; frame-ancestors 'self'"
"""Content policy of reports: no scripts."""
API = "/gradio_api"
UPLOADS = f"{API}/upload"
ORDERS = (f"{API}/queue/join", f"{API}/run/")
"""Addresses that call a function, with and without the queue."""
SENT = (UPLOADS, *ORDERS, f"{API}/cancel", f"{API}/reset")
"""All addresses that the pages send something to."""
DESCRIPTIONS = ("openapi.json", "docs", "redoc", "docs/oauth2-redirect")
"""Descriptions of the interface, which only the pages use."""
LONGEST_ORDER = 1_000_000
"""Maximum size of a request besides uploads, in bytes."""
TYPES = {
    ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
    ".svg": "image/svg+xml", ".mp4": "video/mp4", ".webm": "video/webm", ".mov": "video/quicktime",
    ".html": "text/html; charset=utf-8", ".csv": "text/plain; charset=utf-8", ".txt": "text/plain; charset=utf-8",
    ".json": "application/json", ".zip": "application/zip",
}  # fmt: skip


def create(gallery: Gallery, host: str = LOOPBACK[0]) -> FastAPI:
    """The application."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    _files(app, gallery)
    site = pages.build(gallery)
    app.add_middleware(_Reserving, gallery=gallery)

    @app.middleware("http")
    async def guard(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        refused = await _refused(request, gallery, site.fns)
        response = await call_next(request) if refused is None else refused
        response.headers.setdefault("Content-Security-Policy", OWN)
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        return response

    if is_loopback(host):  # against DNS rebinding
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=[*LOOPBACK, host])
    font = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif"]
    mono = ["ui-monospace", "Menlo", "Consolas", "monospace"]
    with warnings.catch_warnings():  # about features that are switched off below
        warnings.filterwarnings("ignore", "SSR mode")
        return _mounted(
            app, site, gallery, host, gr.themes.Base(primary_hue="sky", neutral_hue="stone", font=font, font_mono=mono)
        )


def _mounted(app: FastAPI, site: gr.Blocks, gallery: Gallery, host: str, theme: Any) -> FastAPI:
    return gr.mount_gradio_app(
        app,
        site.queue(default_concurrency_limit=16, max_size=200),
        path="/",
        server_name=host,
        footer_links=[],
        run_history=False,
        allowed_paths=[],
        blocked_paths=[str(gallery.runs.resolve())],
        show_error=False,
        max_file_size=gallery.limits.upload_bytes,
        ssr_mode=False,
        enable_monitoring=False,
        pwa=False,
        mcp_server=False,
        theme=theme,
        css=parts.style(),
    )


async def _refused(request: Request, gallery: Gallery, functions: Container[int]) -> Response | None:
    """The answer to a request that is not passed on: one from a page elsewhere, without a length, to an address that
    the pages do not use, or that names an unknown function, a file that was not uploaded, or a URL to fetch.

    The pages never send such requests; other clients might.
    """
    path = request.scope["path"]
    if path.removeprefix(API).strip("/") in DESCRIPTIONS:
        return PlainTextResponse("the interface is not described", 404)
    if request.method in ("GET", "HEAD"):
        return None
    if _is_foreign(request):
        return PlainTextResponse("requests are taken from the gallery's own pages only", 403)
    if request.method == "OPTIONS":
        return None
    if not path.startswith(SENT):
        return PlainTextResponse("the gallery takes nothing at this address", 404)
    length = request.headers.get("content-length", "")
    # With another encoding, the length that is declared is not the one that counts.
    if not re.fullmatch("[0-9]{1,15}", length) or "transfer-encoding" in request.headers:
        return PlainTextResponse("a request needs a Content-Length", 411)
    if path == UPLOADS:
        return None  # its length is compared with the room there is
    if int(length) > LONGEST_ORDER:
        return PlainTextResponse(f"a request has at most {LONGEST_ORDER} bytes", 413)
    body = await request.body()
    _, wrong = sentence(lambda: _check_order(body, gallery, functions if path.startswith(ORDERS) else None))
    return PlainTextResponse(wrong, 400) if wrong else None


def _is_foreign(request: Request) -> bool:
    """Whether a page of another server sent a request. Browsers say so; other clients have neither header."""
    host = request.headers.get("host", "")
    own = (f"http://{host}", f"https://{host}")
    origins, sites = request.headers.getlist("origin"), request.headers.getlist("sec-fetch-site")
    return not (all(o in own for o in origins) and all(s in ("same-origin", "none") for s in sites))


def _check_order(body: bytes, gallery: Gallery, functions: Container[int] | None) -> None:
    order = parse_json(body or b"null", "the request")
    index = order.get("fn_index") if isinstance(order, dict) else None
    if functions is not None and (type(index) is not int or index not in functions):
        raise VergenceError("the request names no function of this gallery")
    for value in _values(order):
        if isinstance(value, str) and not value.isascii() and shown(value) != value:
            raise VergenceError("the request has a text that is not valid Unicode")
        if isinstance(value, dict) and isinstance(value.get("path"), str):
            inside(value["path"], gallery.uploads)


class _Reserving:
    """Reserves room for an upload before its first byte is read."""

    def __init__(self, app: ASGIApp, gallery: Gallery) -> None:
        self.app, self.gallery = app, gallery

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD", "OPTIONS") or scope["path"] != UPLOADS:
            return await self.app(scope, receive, send)
        room, left, last = self.gallery.room, int(Headers(scope=scope)["content-length"]), 0
        _, wrong = sentence(lambda: room.reserve(left, self.gallery))
        if wrong:
            return await PlainTextResponse(wrong, 413)(scope, receive, send)

        async def counted() -> Message:
            nonlocal left, last
            room.release(last)  # who asks for more has written what came before
            left -= last
            message = await receive()
            last = min(len(message.get("body", b"")), left)
            return message

        try:
            with suppress(ClientDisconnect):  # a visitor who leaves is no failure
                await self.app(scope, counted, send)
        finally:
            room.release(left)


def _values(value: Any) -> Iterator[Any]:
    """All values in a request, at any depth, with the keys of dictionaries."""
    yield value
    for inner in (*value, *value.values()) if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _values(inner)


def _files(app: FastAPI, gallery: Gallery) -> None:
    """Routes for pictures, reports and results, each selected from a list."""

    @app.get("/_/picture/{name}")
    def picture(name: str) -> Response:
        if name not in catalogue.names():
            raise HTTPException(404)
        path = shelf.picture(name, gallery.runs)
        if path is None:
            return Response(shelf.drawn(catalogue.about(name)), media_type="image/svg+xml")
        if path == catalogue.picture(name):  # a file of the package, which some installers link
            return _sent(path.resolve(), path.resolve().parent, {"Cache-Control": "max-age=60"})
        return _sent(path, gallery.runs, {"Cache-Control": "max-age=60"})

    @app.get("/_/report/{name}/{id}")
    def report(name: str, id: str) -> Response:
        return _sent(_report(name, id).path, gallery.runs, {"Content-Security-Policy": STILL})

    @app.get("/_/report/{name}/{id}/{number}")
    def report_picture(name: str, id: str, number: int) -> Response:
        found = _report(name, id).pictures
        if not 0 <= number < len(found):
            raise HTTPException(404)
        return _sent(found[number], gallery.runs)

    def _report(name: str, id: str) -> shelf.Report:
        found = shelf.report(name, id, gallery.runs) if name in catalogue.names() else None
        if found is None:
            raise HTTPException(404)
        return found

    @app.get("/_/result/{token}.zip")
    def everything(token: str) -> Response:
        job = _job(token)
        assert job.folder is not None
        path = job.folder / "all.zip"
        if not path.exists():
            with tempfile.NamedTemporaryFile(dir=job.folder, delete=False) as partial:
                _zipped(job.folder / OUTPUTS, Path(partial.name))
            Path(partial.name).replace(path)
        return _sent(path, job.folder, download=f"{job.system}.zip")

    @app.get("/_/result/{token}/{number}")
    def result(token: str, number: int, download: int = 0) -> Response:
        job = _job(token)
        if not 0 <= number < len(job.made):
            raise HTTPException(404)
        assert job.folder is not None
        path = job.made[number].path
        return _sent(path, job.folder / OUTPUTS, download=parts.download_name(path) if download else None)

    def _job(token: str) -> Job:
        job = gallery.jobs.find(token)
        if job is None or job.state != "done" or job.folder is None:
            raise HTTPException(404)
        return job


def _sent(path: Path, folder: Path, headers: dict[str, str] | None = None, download: str | None = None) -> Response:
    """A file below a folder, to be shown or saved under a name."""
    try:
        file = open_inside(path, folder)
    except VergenceError:
        raise HTTPException(404) from None
    suffix = path.suffix.lower()
    policy = SCRIPTED if suffix == ".html" else STILL
    more = {"Content-Security-Policy": policy} if suffix in (".html", ".svg") else {}
    kind = TYPES.get(suffix, "application/octet-stream")
    if download and suffix != ".zip":
        kind = "application/octet-stream"
    return _Opened(file, media_type=kind, headers=more | (headers or {}), filename=download)


class _Opened(FileResponse):
    """Sends the file that was opened, whatever its path is by now."""

    def __init__(self, file: BinaryIO, **options: Any) -> None:
        super().__init__(f"/dev/fd/{file.fileno()}", stat_result=os.fstat(file.fileno()), **options)
        self.file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self.file:
            await super().__call__(scope, receive, send)


def _zipped(folder: Path, target: Path) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            with suppress(VergenceError), open_inside(path, folder) as source:  # without folders and links
                entry = zipfile.ZipInfo(shown(str(path.relative_to(folder))), time.localtime()[:6])
                entry.compress_type = zipfile.ZIP_DEFLATED
                with archive.open(entry, "w", force_zip64=True) as file:
                    shutil.copyfileobj(source, file)


def is_loopback(host: str) -> bool:
    """Whether an address is reachable from this machine only."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


# Running --------------------------------------------------------------------------------------------------------------


@contextmanager
def opened(runs: Path, limits: Limits) -> Iterator[Gallery]:
    """A gallery with a temporary folder for uploads and jobs, removed at the end."""
    place = Path(tempfile.mkdtemp(prefix="vergence-gallery-"))
    uploads = place / "uploads"
    uploads.mkdir()
    os.environ["GRADIO_TEMP_DIR"] = str(uploads)
    gallery = Gallery(runs.absolute(), limits, uploads, Jobs(place / "jobs", limits))
    over = threading.Event()
    keeper = threading.Thread(target=_tidy, args=(gallery, over), daemon=True)
    keeper.start()
    try:
        yield gallery
    finally:
        over.set()
        gallery.jobs.close()
        shutil.rmtree(place, ignore_errors=True)


def _tidy(gallery: Gallery, over: threading.Event) -> None:
    """Remove expired uploads and jobs once a minute."""
    while not over.wait(60):
        sweep(gallery.uploads, gallery.limits.keep_minutes)
        gallery.jobs.forget(gallery.limits.keep_minutes)


def serve(runs: Path, host: str, port: int, limits: Limits, show: bool) -> None:
    """Run until interrupted."""
    held = _bound(host, port)
    with opened(runs, limits) as gallery, held:
        address = f"http://{host if ':' not in host else f'[{host}]'}:{held.getsockname()[1]}/"
        print("opening the catalogue ...", file=sys.stderr, flush=True)
        app = create(gallery, host)
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2, access_log=False)
        if not is_loopback(host):
            print(
                f"vergence gallery: {host} can be reached from other machines, and anyone who reaches it can use it",
                file=sys.stderr,
            )
        print(f"gallery: {address}  (Ctrl-C closes it)", flush=True)
        if show:
            threading.Timer(1.0, webbrowser.open, [address]).start()
        uvicorn.Server(config).run(sockets=[held])


def _bound(host: str, port: int) -> socket.socket:
    """A socket bound to the address; a one-sentence error if that fails."""
    try:
        kind, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        bound = socket.socket(kind, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except (OSError, OverflowError) as error:
        cause: Any = getattr(error, "strerror", None) or error
        raise VergenceError(f"cannot listen on {host}, port {port}: {cause}") from None
    return bound
