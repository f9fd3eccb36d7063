"""The server: what it gives out, what it refuses, and that it tells nobody of anything."""

from __future__ import annotations

import asyncio
import html
import io
import os
import re
import secrets
import time
import zipfile
from functools import partial

import pytest

pytest.importorskip("gradio", reason="the gallery's pages need the extra `app`")

from starlette.testclient import TestClient

from vergence import catalogue
from vergence.app import pages, parts, shelf
from vergence.app.jobs import OUTPUTS, Job
from vergence.app.limits import Limits
from vergence.app.server import create, is_loopback, opened
from vergence.app.uploads import weight
from vergence.contract.inputs import Artifact

LOCAL = "http://127.0.0.1"


@pytest.fixture(scope="module")
def gallery(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    folder = root / "snl" / "reports" / "20260101-000000-tiny"
    (folder / "pictures").mkdir(parents=True)
    (folder / "report.html").write_text("<h1>hello</h1><script>alert(1)</script>")
    (folder / "pictures" / "a.png").write_bytes(b"\x89PNG")
    (root / "secret.txt").write_text("secret")
    with opened(root, Limits(folder_mb=1)) as made:
        yield made


@pytest.fixture(scope="module")
def client(gallery):
    with TestClient(create(gallery), base_url=LOCAL) as made:
        yield made


def test_every_system_has_a_page_that_loads_nothing_from_elsewhere(client):
    for path in ("/", *(f"/{name}" for name in catalogue.names())):
        answer = client.get(path)
        assert answer.status_code == 200
        assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
        loaded = re.findall(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(https?://[^"]+)"', answer.text)
        assert [address for address in loaded if not address.startswith(LOCAL)] == []


def test_every_system_has_a_picture(client):
    for name in catalogue.names():
        answer = client.get(f"/_/picture/{name}")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("image/")


def test_a_report_is_shown_without_its_scripts(client):
    answer = client.get("/_/report/snl/comparison-20260101-000000-tiny")
    assert "hello" in answer.text
    policy = answer.headers["Content-Security-Policy"]
    assert "sandbox" in policy
    assert "allow-scripts" not in policy
    assert client.get("/_/report/snl/comparison-20260101-000000-tiny/0").content == b"\x89PNG"


@pytest.mark.parametrize(
    "path",
    [
        "/_/picture/..%2f..%2fsecret.txt",
        "/_/picture/nobody",
        "/_/report/snl/..%2f..%2f..%2fsecret.txt",
        "/_/report/..%2fsecret/x",
        "/_/report/snl/comparison-20260101-000000-tiny/7",
        "/_/report/snl/comparison-20260101-000000-tiny/..%2f..%2fsecret.txt",
        "/_/result/nobody/0",
        "/_/result/nobody.zip",
        "/gradio_api/file=/etc/passwd",
        "/gradio_api/file=http://127.0.0.1:9/a",
        "/gradio_api/proxy=http://127.0.0.1:9/a",
    ],
)
def test_what_is_not_on_a_list_is_not_given_out(client, path):
    answer = client.get(path)
    assert answer.status_code in (400, 403, 404, 422)
    assert "root:" not in answer.text


def test_files_of_the_runs_folder_and_of_jobs_are_not_given_out_by_path(client, gallery):
    folder = gallery.jobs.new_folder()
    (folder / "order.json").write_text("secret")
    for path in (gallery.runs / "secret.txt", folder / "order.json"):
        answer = client.get(f"/gradio_api/file={path}")
        assert answer.status_code in (403, 404)


def test_a_result_is_given_to_who_has_its_token_and_its_pages_run_apart(client, gallery):
    folder = gallery.jobs.new_folder()
    (folder / OUTPUTS).mkdir()
    (folder / OUTPUTS / "a.html").write_text("<script>1</script>")
    job = Job("snl", "prediction", [], 1, folder, state="done", ended=time.monotonic())
    job.made = [Artifact("html", folder / OUTPUTS / "a.html", "a page")]
    gallery.jobs.known[job.token] = job
    policy = client.get(f"/_/result/{job.token}/0").headers["Content-Security-Policy"]
    assert policy.startswith("sandbox allow-scripts; default-src 'none'")
    assert "allow-same-origin" not in policy
    assert client.get(f"/_/result/{job.token}/1").status_code == 404
    assert client.get(f"/_/result/{job.token}.zip").content.startswith(b"PK")
    assert "attachment" in client.get(f"/_/result/{job.token}/0?download=1").headers["content-disposition"]


def test_uploads_beyond_the_room_there_is_are_refused(client):
    files = {"files": ("a.bin", bytes(2_000_000))}
    answer = client.post("/gradio_api/upload", files=files)
    assert answer.status_code == 413
    assert "no room for more uploads" in answer.text


def test_an_upload_lands_in_the_upload_folder(client, gallery):
    answer = client.post("/gradio_api/upload", files={"files": ("../../evil.png", b"x")})
    assert answer.status_code == 200
    for path in answer.json():
        assert str(path).startswith(str(gallery.uploads))


def test_a_page_elsewhere_that_pretends_to_be_here_does_not_get_in(client):
    assert client.get("/", headers={"host": "evil.example"}).status_code == 400


def taker_of_several(gallery):
    """The number of a function behind a form that takes several pictures, and places on them."""
    functions = pages.build(gallery).fns.items()
    return next(
        number
        for number, f in functions
        if len(f.inputs) == 2 and f.fn.__name__ == "changed" and getattr(f.inputs[0], "file_count", "") == "multiple"
    )


def order(client, place, path):
    given = {"path": path, "orig_name": "a.png", "meta": {"_type": "gradio.FileData"}}
    data = {"data": [[given], {"on": "", "clicks": []}], "fn_index": place, "session_hash": "visitor"}
    return client.post("/gradio_api/queue/join", json=data)


def test_an_order_may_name_uploads_and_nothing_else(client, gallery):
    """Whoever speaks to the server without the page can name any path, and addresses that Gradio would fetch."""
    place = taker_of_several(gallery)
    (gallery.uploads.parent / "secret.txt").write_text("secret")
    for path in ("/etc/passwd", str(gallery.runs / "secret.txt"), str(gallery.uploads / ".." / "secret.txt")):
        answer = order(client, place, path)
        assert (answer.status_code, answer.text) == (400, "only files that were uploaded here can be used")
    for path in ("http://127.0.0.1:9/a.png", "https://example.org/a.png", "", "\0"):
        assert order(client, place, path).status_code == 400
    (path,) = client.post("/gradio_api/upload", files={"files": ("a.png", b"x")}).json()
    assert order(client, place, path).status_code == 200
    told = client.get("/gradio_api/queue/data", params={"session_hash": "visitor"}).text
    assert "a.png is not a readable picture" in told


def test_orders_are_bounded_and_json(client):
    assert client.post("/gradio_api/queue/join", content=b"{").status_code == 400
    assert client.post("/gradio_api/queue/join", content=b"[" * 100_000).status_code == 400
    assert client.post("/gradio_api/queue/join", content=bytes(1_000_001)).status_code == 413


@pytest.mark.parametrize(
    ("host", "own"), [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("10.0.0.1", False)]
)
def test_loopback_is_known(host, own):
    assert is_loopback(host) is own


def test_what_it_kept_is_removed_at_the_end(tmp_path):
    with opened(tmp_path, Limits()) as made:
        place = made.uploads.parent
        (made.uploads / "a").touch()
        assert place.exists()
    assert not place.exists()


# Requests -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "null"},
        {"origin": "ftp://127.0.0.1"},
        {"origin": "http://[127.0.0.1"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": LOCAL, "sec-fetch-site": "cross-site"},
    ],
)
def test_a_page_elsewhere_can_send_nothing(client, gallery, headers):
    before = set(gallery.uploads.rglob("*"))
    answer = client.post("/gradio_api/upload", files={"files": ("a.png", b"elsewhere")}, headers=headers)
    assert (answer.status_code, answer.text) == (403, "requests are taken from the gallery's own pages only")
    assert client.post("/gradio_api/queue/join", json={}, headers=headers).status_code == 403
    assert set(gallery.uploads.rglob("*")) == before


@pytest.mark.parametrize(
    "headers", [{}, {"origin": LOCAL, "sec-fetch-site": "same-origin"}, {"sec-fetch-site": "none"}]
)
def test_the_gallery_s_own_pages_can_send_files(client, headers):
    answer = client.post("/gradio_api/upload", files={"files": ("a.png", b"here")}, headers=headers)
    assert answer.status_code == 200


@pytest.mark.parametrize("path", ["queue/join", "run/predict", "run/x%3Fy"])
@pytest.mark.parametrize("index", [9999, -1, "9999", "nobody", None, 1.5, True, [], {}, 10**30])
def test_an_unknown_function_is_a_sentence(client, capfd, caplog, path, index):
    order = {"data": [], "fn_index": index, "session_hash": "visitor"}
    answer = client.post(f"/gradio_api/{path}", json=order)
    assert answer.status_code == 400
    assert "function" in answer.text or "out of range" in answer.text
    assert "Traceback" not in answer.text
    assert (capfd.readouterr().err, caplog.text) == ("", "")


@pytest.mark.parametrize("order", [None, [], 3, "x", {}, {"data": []}])
def test_an_order_without_a_function_is_a_sentence(client, capfd, order):
    assert client.post("/gradio_api/run/predict", json=order).status_code == 400
    assert client.post("/gradio_api/queue/join", json=order).status_code == 400
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "path",
    [
        "api/predict",
        "call/predict",
        "call/v2/predict",
        "component_server",
        "process_recording",
        "vibe-code",
        "stream/x",
    ],
)
def test_what_the_pages_do_not_use_is_not_there(client, capfd, path):
    order = {"data": [], "session_hash": "x", "component_id": 99999, "fn_name": "x"}
    assert client.post(f"/gradio_api/{path}", json=order).status_code == 404
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "path",
    [
        "/openapi.json", "/docs", "/redoc", "/docs/oauth2-redirect", "/gradio_api/openapi.json", "/gradio_api/docs",
        "/gradio_api/redoc", "/gradio_api/openapi%2Ejson", "/openapi.json/",
    ],
)  # fmt: skip
def test_the_interface_is_not_described(client, path):
    answer = client.get(path)
    assert answer.status_code == 404
    assert "paths" not in answer.text


def test_a_request_that_hides_its_length_is_refused(client):
    def body():
        yield b"x"

    assert client.post("/gradio_api/upload", content=body()).status_code == 411
    for headers in ({"transfer-encoding": "chunked", "content-length": "1"}, {"content-length": "\xb2"}):
        sent = {name: value.encode("latin-1") for name, value in headers.items()}
        assert client.post("/gradio_api/upload", content=b"x", headers=sent).status_code == 411


def scope_of(declared):
    headers = [(b"host", b"127.0.0.1"), (b"content-length", str(declared).encode()),
               (b"content-type", b"multipart/form-data; boundary=b")]  # fmt: skip
    return {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
             "path": "/gradio_api/upload", "raw_path": b"/gradio_api/upload", "query_string": b"", "root_path": "",
             "headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "state": {}}  # fmt: skip


def upload(app, declared, begun, go):
    """An upload of which the body comes after ``go``: the status of the answer."""
    head = b'--b\r\nContent-Disposition: form-data; name="files"; filename="a.bin"\r\n\r\n'
    tail = b"\r\n--b--\r\n"
    body = head + secrets.token_bytes(declared - len(head) - len(tail)) + tail
    status, bodies = [], [body]

    async def receive():
        begun()
        await go.wait()
        if not bodies:
            await asyncio.Event().wait()  # nobody hangs up
        return {"type": "http.request", "body": bodies.pop(), "more_body": False}

    async def send(message):
        if message["type"] == "http.response.start":
            status.append(message["status"])
            if message["status"] != 200:
                begun()

    async def run():
        await app(scope_of(declared), receive, send)
        return status[0]

    return run()


def test_room_is_reserved_before_an_upload_is_written(tmp_path):
    """Of many uploads at once, only as many begin as there is room for."""
    with opened(tmp_path, Limits(folder_mb=1)) as gallery:
        app = create(gallery)

        async def all_at_once():
            go, reached = asyncio.Event(), set()

            def begun(number):
                reached.add(number)
                if len(reached) == 24:
                    go.set()

            return await asyncio.gather(*(upload(app, 300_000, partial(begun, n), go) for n in range(24)))

        statuses = asyncio.run(all_at_once())
        assert sorted(statuses) == [200] * 3 + [413] * 21
        assert 890_000 < weight(gallery.uploads) <= 1_000_000
        assert gallery.room.reserved == 0


def test_a_visitor_who_leaves_during_an_upload_is_no_failure(client, gallery):
    async def receive():
        return {"type": "http.disconnect"}

    async def send(message):
        pass

    asyncio.run(client.app(scope_of(1000), receive, send))
    assert gallery.room.reserved == 0


def test_room_is_given_back_after_a_broken_upload(client, gallery):
    for _ in range(5):
        answer = client.post("/gradio_api/upload", content=bytes(600_000), headers={"content-type": "text/plain"})
        assert answer.status_code == 400
    assert gallery.room.reserved == 0


# Links and names ------------------------------------------------------------------------------------------------------


@pytest.fixture
def linked(tmp_path):
    """A gallery whose runs folder has links to a file and a folder outside it."""
    secret = tmp_path / "secret"
    (secret / "pictures").mkdir(parents=True)
    (secret / "report.html").write_text("secret")
    (secret / "pictures" / "a.png").write_bytes(b"secret")
    reports = tmp_path / "runs" / "snl" / "reports"
    for name in ("20260101-000000-file", "20260102-000000-picture", "20260103-000000-pictures"):
        (reports / name).mkdir(parents=True)
    (reports / "20260101-000000-file" / "report.html").symlink_to(secret / "report.html")
    (reports / "20260102-000000-picture" / "report.html").write_text("own")
    (reports / "20260102-000000-picture" / "pictures").mkdir()
    (reports / "20260102-000000-picture" / "pictures" / "a.png").symlink_to(secret / "pictures" / "a.png")
    (reports / "20260103-000000-pictures" / "report.html").write_text("own")
    (reports / "20260103-000000-pictures" / "pictures").symlink_to(secret / "pictures")
    (reports / "20260104-000000-folder").symlink_to(secret)
    run = tmp_path / "runs" / "snl" / "20260105-000000-tiny"
    run.mkdir()
    (run / "config.json").write_text("{}")
    (run / "report.html").symlink_to(secret / "report.html")
    with opened(tmp_path / "runs", Limits()) as gallery, TestClient(create(gallery), base_url=LOCAL) as made:
        yield made, gallery


def test_links_in_the_runs_folder_are_not_followed(linked, monkeypatch):
    client, _ = linked
    for id in ("comparison-20260101-000000-file", "comparison-20260104-000000-folder", "run-20260105-000000-tiny",
               "comparison-20260102-000000-picture/0", "comparison-20260103-000000-pictures/0",
               "comparison-20260104-000000-folder/0"):  # fmt: skip
        answer = client.get(f"/_/report/snl/{id}")
        assert (answer.status_code, "secret" in answer.text) == (404, False), id
    assert client.get("/_/report/snl/comparison-20260102-000000-picture").text == "own"
    monkeypatch.setattr(catalogue, "picture", lambda name: None)
    assert client.get("/_/picture/snl").text.startswith("<svg")


def test_a_link_that_takes_the_place_of_a_listed_file_is_not_followed(linked, monkeypatch):
    """Between the list and the opening, a file may be replaced."""
    client, gallery = linked
    folder = gallery.runs / "snl" / "reports" / "20260101-000000-file"
    late = shelf.Report("late", "late", folder / "report.html", (folder / "report.html",))
    monkeypatch.setattr(shelf, "report", lambda *_: late)
    assert client.get("/_/report/snl/late").status_code == 404
    assert client.get("/_/report/snl/late/0").status_code == 404


def done(gallery, *names):
    folder = gallery.jobs.new_folder()
    (folder / OUTPUTS).mkdir()
    job = Job("snl", "prediction", [], 1, folder, state="done", ended=time.monotonic())
    job.made = [Artifact("text", folder / OUTPUTS / name, "a text") for name in names]
    gallery.jobs.known[job.token] = job
    return job


def test_links_among_results_are_not_followed(client, gallery):
    job = done(gallery, "a.txt", "sub/secret.txt", "pipe.txt", "own.txt")
    out = job.folder / OUTPUTS
    (out / "own.txt").write_text("own")
    (out / "a.txt").symlink_to(gallery.runs / "secret.txt")
    (out / "sub").symlink_to(gallery.runs)
    os.mkfifo(out / "pipe.txt")
    for number in range(3):
        for query in ("", "?download=1"):
            assert client.get(f"/_/result/{job.token}/{number}{query}").status_code == 404
    assert client.get(f"/_/result/{job.token}/3").text == "own"
    assert "secret" not in parts.job(job, 0).replace("secret.txt", "")
    with zipfile.ZipFile(io.BytesIO(client.get(f"/_/result/{job.token}.zip").content)) as archive:
        assert archive.namelist() == ["own.txt"]


def test_a_part_of_a_result_can_be_asked_for(client, gallery):
    job = done(gallery, "own.txt")
    (job.folder / OUTPUTS / "own.txt").write_text("0123456789")
    answer = client.get(f"/_/result/{job.token}/0", headers={"range": "bytes=2-4"})
    assert (answer.status_code, answer.text) == (206, "234")


def test_names_that_are_not_utf_8_cause_no_traceback(tmp_path, capfd):
    odd = os.fsdecode(b"20260101-000000-\xff")
    runs = tmp_path / os.fsdecode(b"runs-\xfe")
    for folder in (runs / "snl" / "reports" / odd, runs / "snl" / odd):
        (folder / "pictures").mkdir(parents=True)
        (folder / "report.html").write_text("own")
        (folder / "pictures" / os.fsdecode(b"\xff.png")).write_bytes(b"\x89PNG")
    (runs / "snl" / odd / "config.json").write_text("{}")
    (runs / "snl" / odd / "last.safetensors").write_bytes(b"x")
    with opened(runs, Limits()) as gallery, TestClient(create(gallery), base_url=LOCAL) as client:
        assert client.get("/snl").status_code == 200
        found = shelf.reports("snl", gallery.runs)
        assert len(found) == 2
        shown = parts.reports(catalogue.about("snl"), found)
        shown.encode()
        for address in re.findall(r'(?:href|src)="(/_/[^"#]+)', shown):
            assert client.get(html.unescape(address)).status_code == 200
        job = done(gallery, os.fsdecode(b"a-\xff.txt"))
        job.made[0].path.write_text("own")
        parts.job(job, 0).encode()
        assert client.get(f"/_/result/{job.token}/0").text == "own"
        assert client.get(f"/_/result/{job.token}/0?download=1").text == "own"
        with zipfile.ZipFile(io.BytesIO(client.get(f"/_/result/{job.token}.zip").content)) as archive:
            assert archive.namelist() == ["a-~FF.txt"]
        for address in ("/_/picture/%ff", "/_/report/snl/%ff", "/_/report/%ff/0", "/_/result/%ff/0", "/%ff"):
            assert client.get(address).status_code == 404
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    "name", [b"\xff.png", b"\xed\xb3\xbf.png", b"a\0b.png", b"..", b"", b"/", b"a" * 3000, b"\xe4\xf6.png", b"%ff.png"]
)
def test_an_upload_may_have_any_name(client, gallery, capfd, name):
    body = b'--b\r\nContent-Disposition: form-data; name="files"; filename="' + name + b'"\r\n\r\nx\r\n--b--\r\n'
    headers = {"content-type": "multipart/form-data; boundary=b"}
    answer = client.post("/gradio_api/upload", content=body, headers=headers)
    assert answer.status_code in (200, 400)
    place = taker_of_several(gallery)
    for path in answer.json() if answer.status_code == 200 else []:
        assert order(client, place, path).status_code in (200, 400)
    assert "Traceback" not in capfd.readouterr().err


def test_an_order_is_text_in_utf_8(client, capfd):
    for text in (b'"\\ud800"', b'"\xff"', b'{"\\udfff": 1}'):
        sent = b'{"fn_index": 0, "session_hash": "x", "data": [' + text + b', "every task"]}'
        answer = client.post("/gradio_api/queue/join", content=sent, headers={"content-type": "application/json"})
        assert answer.status_code == 400
    assert "Traceback" not in capfd.readouterr().err
