"""The server: what it gives out, what it refuses, and that it tells nobody of anything."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from functools import partial

import pytest

pytest.importorskip("gradio", reason="the gallery's pages need the extra `app`")

from starlette.testclient import TestClient

from vergence import catalogue
from vergence.app import pages
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


def order(client, place, path):
    given = {"path": path, "orig_name": "a.png", "meta": {"_type": "gradio.FileData"}}
    data = {"data": [[given], {"on": "", "clicks": []}], "fn_index": place, "session_hash": "visitor"}
    return client.post("/gradio_api/queue/join", json=data)


def test_an_order_may_name_uploads_and_nothing_else(client, gallery):
    """Whoever speaks to the server without the page can name any path, and addresses that Gradio would fetch."""
    place = next(n for n, f in pages.build(gallery).fns.items() if len(f.inputs) == 2 and f.fn.__name__ == "changed")
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


def upload(app, declared, begun, go):
    """An upload of which the body comes after ``go``: the status of the answer."""
    head = b'--b\r\nContent-Disposition: form-data; name="files"; filename="a.bin"\r\n\r\n'
    tail = b"\r\n--b--\r\n"
    body = head + secrets.token_bytes(declared - len(head) - len(tail)) + tail
    status, parts = [], [body]

    async def receive():
        begun()
        await go.wait()
        if not parts:
            await asyncio.Event().wait()  # nobody hangs up
        return {"type": "http.request", "body": parts.pop(), "more_body": False}

    async def send(message):
        if message["type"] == "http.response.start":
            status.append(message["status"])
            if message["status"] != 200:
                begun()

    headers = [(b"host", b"127.0.0.1"), (b"content-length", str(declared).encode()),
               (b"content-type", b"multipart/form-data; boundary=b")]  # fmt: skip
    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
             "path": "/gradio_api/upload", "raw_path": b"/gradio_api/upload", "query_string": b"", "root_path": "",
             "headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "state": {}}  # fmt: skip

    async def run():
        await app(scope, receive, send)
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


def test_room_is_given_back_after_a_broken_upload(client, gallery):
    for _ in range(5):
        answer = client.post("/gradio_api/upload", content=bytes(600_000), headers={"content-type": "text/plain"})
        assert answer.status_code == 400
    assert gallery.room.reserved == 0
