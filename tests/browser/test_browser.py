"""The gallery as a visitor sees it: in a real browser, from click to picture."""

from __future__ import annotations

import contextlib
import io
import re
import threading
import time
import zipfile
from pathlib import Path
from urllib.parse import urlparse

import numpy as np
import pytest
from PIL import Image

from vergence import catalogue

pytestmark = pytest.mark.xdist_group("browser")


def picture(path, seed=0, size=(64, 48)):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1] // 8, size[0] // 8, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC).save(path)
    return path


def video(path, frames=6):
    from vergence.data.video import write_video

    ground = np.random.default_rng(0).integers(0, 90, (96, 128, 3), dtype=np.uint8)
    made = []
    for number in range(frames):
        frame = ground.copy()
        frame[20:60, 20 + 3 * number : 60 + 3 * number] = (200, 180, 40)
        made.append(frame)
    return write_video(path, made, 10.0)


# The wall -------------------------------------------------------------------------------------------------------------


def test_the_wall_shows_every_system_with_a_picture_and_asks_nobody_else(gallery, visitor):
    seen = visitor(gallery).open()
    names = {e.get_attribute("id").removeprefix("card-") for e in seen.all(".card")}
    assert names == set(catalogue.names())
    assert "fake-ruler" in names  # a guest, of which the gallery knows nothing
    for card in seen.all(".card"):
        seen.driver.execute_script("arguments[0].scrollIntoView()", card)
    seen.until(lambda: seen.drawn(".card img"), "a card has no picture")
    hosts = {urlparse(u).netloc for u in seen.requests() if u.startswith(("http", "ws"))}
    assert hosts == {urlparse(gallery).netloc}


def test_the_search_and_the_task_choose_what_the_wall_shows(gallery, visitor):
    seen = visitor(gallery).open()
    seen.type("#search textarea, #search input", "flow optimal")
    seen.until(lambda: [e.get_attribute("id") for e in seen.all(".card")] == ["card-flot"], "search does not choose")
    seen.type("#search textarea, #search input", "xyzzy")
    seen.says("#wall", "No system has all of these words")
    seen.type("#search textarea, #search input", " ")
    seen.until(lambda: len(seen.all(".card")) == len(catalogue.names()), "not all come back")
    seen.click("#task input")
    option = seen.until(
        lambda: [e for e in seen.all("[role=option]") if e.text.strip().endswith("road network evaluation")], "no task"
    )
    option[0].click()
    seen.until(
        lambda: [e.get_attribute("id") for e in seen.all(".card")] == ["card-roadmetrics"], "task does not choose"
    )


def test_a_card_leads_to_a_page_with_claims_and_their_verdicts(gallery, visitor):
    seen = visitor(gallery).open()
    seen.click("#card-roadmetrics")
    seen.wait(".top h1")
    assert catalogue.about("roadmetrics").title in seen.text(".top h1")
    seen.wait("#claims .claim")
    assert len(seen.all("#claims .claim")) == len(catalogue.load("roadmetrics").claims)
    counts = [int(n) for n in re.findall(r"\d+", seen.text("#claims .tally"))]
    assert sum(counts) == sum(claim.kind != "check" for claim in catalogue.load("roadmetrics").claims)
    seen.says("#reports", "vergence run roadmetrics")


# A demo of each kind --------------------------------------------------------------------------------------------------


def test_images_and_points_give_attention_maps(gallery, visitor, tmp_path):
    seen = visitor(gallery).open("snl")
    seen.wait("#weights")
    seen.upload("images", picture(tmp_path / "a.png"), picture(tmp_path / "b.jpg", 1))
    seen.says("#note-images", "64 × 48")
    seen.click_picture("#picker-points", 0.25, 0.5)
    seen.says("#told-points", "Chosen: (")
    seen.click_picture("#picker-points", 0.75, 0.25)
    seen.says("#told-points", "), (")
    chosen = [float(n) for n in re.findall(r"[\d.]+", seen.text("#told-points"))]
    assert chosen == pytest.approx([16, 24, 48, 12], abs=1)
    seen.click("#run")
    kinds = [e.get_attribute("class") for e in seen.result()]
    assert any("image" in kind for kind in kinds)
    seen.until(lambda: seen.drawn("#result figure img"), "a picture of the result is not there")
    assert seen.all("#result a.all")


def test_a_video_and_a_box_give_a_track(gallery, visitor, tmp_path):
    seen = visitor(gallery).open("sesiam")
    seen.upload("video", video(tmp_path / "clip.mp4"))
    seen.says("#note-video", "128 × 96")
    seen.click_picture("#picker-box", 0.15, 0.2)
    seen.says("#told-box", "opposite corner")
    seen.click_picture("#picker-box", 0.5, 0.65)
    seen.says("#told-box", "Chosen: 1")
    seen.click("#run")
    seen.result()
    film = seen.wait("#result video", shown=False)
    seen.until(lambda: film.get_property("videoWidth") == 128, "the video of the track does not play")


def choose_weights(seen, preset):
    seen.click("#weights input")
    seen.until(lambda: [e for e in seen.all("[role=option]") if preset in e.text], f"no weights of {preset}")[0].click()


def test_a_video_is_labelled_by_weights_for_videos(gallery, visitor, tmp_path):
    seen = visitor(gallery).open("snl")
    choose_weights(seen, "tiny-video")
    seen.upload("videos", video(tmp_path / "walk.mp4"))
    seen.says("#note-videos", "128 × 96")
    seen.click_picture("#picker-points", 0.5, 0.5)
    seen.says("#told-points", "Chosen: (")
    seen.click("#run")
    seen.result()
    seen.says("#result table", "walk.mp4")
    seen.until(lambda: seen.drawn("#result figure img"), "what the point looks at is not there")


def test_a_tracklet_is_ranked_against_others_by_weights_for_tracklets(gallery, visitor, tmp_path):
    with zipfile.ZipFile(tmp_path / "people.zip", "w") as archive:
        for number in range(6):
            file = picture(tmp_path / f"{number}.png", number, (16, 32))
            archive.write(file, f"people/{'anna' if number < 3 else 'bert'}/{number}.png")
    seen = visitor(gallery).open("snl")
    choose_weights(seen, "tiny-reid")
    seen.upload("query", *(tmp_path / f"{number}.png" for number in range(3)))
    seen.upload("gallery", tmp_path / "people.zip")
    seen.says("#note-query", "16 × 32")
    seen.says("#note-gallery", "6 files")
    seen.click("#run")
    seen.result()
    frame = seen.wait("#result iframe")
    seen.until(lambda: seen.drawn("#result figure img"), "what the points look at is not there")
    seen.driver.switch_to.frame(frame)
    seen.says("body", "bert")
    seen.until(lambda: seen.drawn("img"), "the frames of the tracklets are not there")


def test_the_example_fills_the_form_with_files_and_places(gallery, visitor):
    seen = visitor(gallery).open("sesiam")
    seen.click("#example")
    seen.says("#note-video", "240 × 240")
    seen.says("#told-box", "Chosen: 1")
    seen.until(lambda: seen.drawn("#picker-box img"), "the first frame is not shown")


def test_two_clouds_give_a_flow_in_three_dimensions(gallery, visitor, tmp_path):
    cloud = np.random.default_rng(0).normal(0, 3, (200, 3)).astype(np.float32)
    np.save(tmp_path / "a.npy", cloud)
    np.save(tmp_path / "b.npy", cloud + 0.1)
    seen = visitor(gallery).open("flot")
    seen.upload("first", tmp_path / "a.npy").upload("second", tmp_path / "b.npy")
    seen.says("#note-first", "200 points")
    seen.says("#note-second", "200 points")
    seen.click("#run")
    seen.result()
    frame = seen.wait("#result iframe")
    assert frame.get_attribute("sandbox") == "allow-scripts"
    seen.driver.switch_to.frame(frame)
    seen.wait("canvas")


def test_images_are_attacked_and_each_network_answers(gallery, visitor, tmp_path):
    seen = visitor(gallery).open("patchwise")
    seen.upload("images", picture(tmp_path / "a.png", size=(32, 32)))
    seen.says("#note-images", "32 × 32")
    seen.click("#run")
    assert seen.result()
    seen.until(lambda: seen.drawn("#result figure img"), "no picture")


def test_a_gallery_as_a_zip_and_a_query_give_ranked_results(gallery, visitor, tmp_path):
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        for number in range(6):
            archive.write(picture(tmp_path / f"{number}.jpg", number), f"photos/{number}.jpg")
    seen = visitor(gallery).open("lattqe")
    seen.upload("query", picture(tmp_path / "query.png", 3)).upload("gallery", tmp_path / "photos.zip")
    seen.says("#note-gallery", "6 files")
    seen.says("#note-query", "64 × 48")
    seen.click(".label-wrap")
    seen.type("#set-backbone textarea, #set-backbone input", "resnet18")
    seen.click("#set-method input")
    seen.until(lambda: [e for e in seen.all("[role=option]") if e.text.strip().endswith("alpha")], "no method")[
        0
    ].click()
    seen.click("#run")
    seen.result()
    seen.driver.switch_to.frame(seen.wait("#result iframe"))
    seen.until(lambda: seen.drawn("img"), "the ranked pictures are not there")


def test_two_graphs_give_an_overlay_without_any_weights(gallery, visitor, tmp_path):
    (tmp_path / "truth.graph").write_text("0 0\n100 0\n100 100\n\n0 1\n1 0\n1 2\n2 1\n")
    (tmp_path / "mine.graph").write_text("0 0\n100 0\n\n0 1\n1 0\n")
    seen = visitor(gallery).open("roadmetrics")
    seen.upload("truth", tmp_path / "truth.graph").upload("prediction", tmp_path / "mine.graph")
    seen.says("#note-truth", "truth.graph")
    seen.says("#note-prediction", "mine.graph")
    seen.click("#run")
    seen.result()
    seen.until(lambda: seen.drawn("#result figure img") or seen.all("#result iframe"), "no overlay")


# What goes wrong, and several at once ---------------------------------------------------------------------------------


def test_a_bad_upload_shows_its_sentence(gallery, visitor, tmp_path):
    (tmp_path / "holiday.png").write_text("this is no picture")
    seen = visitor(gallery).open("snl")
    seen.upload("images", tmp_path / "holiday.png")
    seen.says("#note-images", "holiday.png is not a readable picture")
    seen.click("#run")
    seen.says("#result .wrong", "holiday.png is not a readable picture")
    assert "Traceback" not in seen.driver.page_source


def test_a_missing_input_is_named(gallery, visitor):
    seen = visitor(gallery).open("flot")
    seen.click("#run")
    seen.says("#result .wrong", "first is missing: a point cloud")


def test_without_weights_training_is_offered_shows_progress_and_can_be_cancelled(gallery, visitor):
    seen = visitor(gallery).open("ata")
    seen.says("body", "no trained weights of ata here yet. Train the small version first, about 1 minute on")
    seen.click("#train")
    seen.wait("#result progress", 40)
    seen.click("#cancel")
    seen.says("#result", "Stopped", 20)


def busy(seen, folder):
    """A visitor whose job shows progress and has long to go."""
    seen.open("sesiam")
    seen.upload("video", video(folder / "long.mp4", frames=500))
    seen.says("#note-video", "50.0 s")
    seen.click_picture("#picker-box", 0.2, 0.2)
    seen.says("#told-box", "opposite corner")
    seen.click_picture("#picker-box", 0.5, 0.6)
    seen.says("#told-box", "Chosen: 1")
    seen.click("#run")
    seen.wait("#result progress", 30)
    return seen


def test_a_long_job_shows_progress_and_can_be_cancelled(gallery, visitor, tmp_path):
    seen = busy(visitor(gallery), tmp_path)
    seen.click("#cancel")
    seen.says("#result", "Stopped", 10)
    seen.until(lambda: seen.wait("#run").is_enabled(), "it cannot be run again")


def working():
    """The processes that predict."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if b"vergence.app.work" in path.read_bytes():
                found.append(path)
    return found


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks at /proc")
def test_the_job_of_a_visitor_who_leaves_is_ended(gallery, visitor, tmp_path):
    seen = busy(visitor(gallery), tmp_path)
    assert working()
    seen.driver.get("about:blank")
    seen.until(lambda: not working(), "the job goes on")


def test_two_visitors_work_at_once(gallery, visitor, tmp_path):
    (tmp_path / "a.graph").write_text("0 0\n100 0\n100 100\n\n0 1\n1 0\n1 2\n2 1\n")
    found, began = {}, {}

    def visit(name, seen):
        seen.open("roadmetrics")
        seen.upload("truth", tmp_path / "a.graph").upload("prediction", tmp_path / "a.graph")
        seen.says("#note-prediction", "a.graph")
        seen.says("#note-truth", "a.graph")
        seen.click("#run")
        began[name] = time.monotonic()
        seen.result()
        found[name] = seen.wait("#result a.all").get_attribute("href")

    two = {name: visitor(gallery) for name in ("one", "two")}
    threads = [threading.Thread(target=visit, args=pair) for pair in two.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(set(found.values())) == 2  # each its own result


def test_the_result_can_be_downloaded_whole(gallery, visitor, tmp_path):
    from urllib.request import urlopen

    (tmp_path / "a.graph").write_text("0 0\n100 0\n\n0 1\n1 0\n")
    seen = visitor(gallery).open("roadmetrics")
    seen.upload("truth", tmp_path / "a.graph").upload("prediction", tmp_path / "a.graph")
    seen.says("#note-prediction", "a.graph")
    seen.says("#note-truth", "a.graph")
    seen.click("#run")
    seen.result()
    with urlopen(seen.wait("#result a.all").get_attribute("href")) as answer:
        archive = zipfile.ZipFile(io.BytesIO(answer.read()))
    assert archive.testzip() is None
    assert archive.namelist()
