"""Track an object in a video.

    python examples/track_video.py                               # makes a video, and follows a digit in it
    python examples/track_video.py clip.mp4 --box 120,80,60,40   # yours: the object in the box (x, y, width, height)
    python examples/track_video.py clip.mp4 --box 120,80,60,40 --weights FILE

Without weights a small tracker is trained first, on moving digits, in about a minute and a half on one core; the next
call finds it in its run folder. For real video train one on photographs: `vergence train sesiam --preset natural`.
Writes the video with its boxes, a table of them, and a strip of frames.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import vergence
from vergence.cli.main import main as command
from vergence.data.video import write_video
from vergence.runs.folder import runs
from vergence.tracking.settings import Scene
from vergence.tracking.synth import moving_digits

SCENE = Scene(size=160, digit=26, frames=40)
"""The scenes on which the small preset is trained."""


def make_video(path: Path) -> tuple[float, ...]:
    """A sequence that no tracker was trained on: digits over noise, growing and shrinking. Returns the first box."""
    track = moving_digits("s-mnist", 3, "test", SCENE).sequences[2]
    write_video(path, (track.frames[n] for n in range(len(track))), fps=20)
    return tuple(float(v) for v in track.boxes[0])


def tracker(folder: Path, steps: int) -> Path:
    """The weights of a finished run, or else of a new one."""
    done = [run.weights for run in runs("sesiam", folder) if run.weights and run.result]
    if not done:
        print("training a small tracker first")
        length = ["--train.steps", str(steps)] if steps else []
        brief = ["--data.tests", "1", "--no-report"]  # it is to be used here, not judged
        if command(["train", "sesiam", "--variant", "se-siamfc-s", "--runs", str(folder), *brief, *length]):
            raise SystemExit("the training failed")
        done = [run.weights for run in runs("sesiam", folder) if run.weights]
    assert done[0] is not None
    return done[0]


def main(argv: list[str] | None = None) -> Path:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("video", nargs="?", type=Path)
    parser.add_argument("--box", help="x,y,width,height of the target in the first frame")
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where trained runs are looked for and kept")
    parser.add_argument("--steps", type=int, default=0, help="train so many steps only")
    parser.add_argument("--frames", type=int, default=0, help="follow it for so many frames only")
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

    weights = options.weights or tracker(options.runs, options.steps)
    target = {"video": str(options.video), "box": [box], "frames": options.frames}
    result = vergence.predict(weights, **target)
    print(f"{len(result.boxes)} frames; the last box: {result.boxes[-1, 0].round(1).tolist()}")
    files = result.save(options.out / "tracked.mp4")
    for artifact in files:
        print(f"{artifact.path}: {artifact.caption}")
    return next(a.path for a in files if a.path.suffix == ".png")


if __name__ == "__main__":
    main()
