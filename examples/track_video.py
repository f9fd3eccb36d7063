"""Track an object in a video.

    python examples/track_video.py                               # makes a video, and follows an object in it
    python examples/track_video.py clip.mp4 --box 120,80,60,40   # yours: the box (x, y, width, height) holds the object
    python examples/track_video.py clip.mp4 --box 120,80,60,40 --weights FILE

Uses the starter weights that come with Vergence: a small tracker trained on photographs. Writes the video with its
boxes, a table of them, and a strip of frames. Takes less than ten seconds on one core, most of it to start.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import vergence
from vergence.data.video import write_video
from vergence.runs.machine import Machine
from vergence.tracking.natural import natural
from vergence.tracking.settings import Scene


def make_video(path: Path) -> tuple[float, ...]:
    """A sequence that no tracker was trained on: a part of one photograph moves over another. Returns the first box."""
    track = natural(3, "test", Scene(size=240, digit=48, frames=60)).sequences[2]
    write_video(path, (track.frames[n] for n in range(len(track))), fps=20)
    return tuple(float(v) for v in track.boxes[0])


def main(argv: list[str] | None = None) -> Path:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("video", nargs="?", type=Path)
    parser.add_argument("--box", help="x,y,width,height of the object in the first frame")
    parser.add_argument("--weights", type=Path, help="weights of your own")
    parser.add_argument("--frames", type=int, default=0, help="stop after this number of frames (0: at the end)")
    parser.add_argument("--out", type=Path, default=Path("tracked"))
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    if options.video is None:
        options.video = options.out / "made.mp4"
        box = make_video(options.video)
    elif options.box:
        box = tuple(map(float, options.box.split(",")))
    else:
        parser.error("a video of yours needs --box x,y,width,height")

    model = vergence.load("sesiam", options.weights)
    one_thread = Machine(threads=1)  # enough for a network this small
    result = model.predict(video=options.video, box=box, frames=options.frames, machine=one_thread)
    print(f"{len(result.boxes)} frames; the last box: {result.boxes[-1, 0].round(1).tolist()}")
    files = result.save(options.out / "tracked.mp4")
    for artifact in files:
        print(f"{artifact.path}: {artifact.caption}")
    return next(a.path for a in files if a.path.suffix == ".png")


if __name__ == "__main__":
    main()
