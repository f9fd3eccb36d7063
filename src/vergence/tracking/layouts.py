"""Readers of sequences in their public layouts: GOT-10k, OTB, VOT, LaSOT, and a user's own folders of frames."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vergence.contract.data import Layout
from vergence.core.errors import VergenceError
from vergence.data.layouts import read_all
from vergence.tracking.boxes import Array, known, upright
from vergence.tracking.data import FileFrames, Track, Tracks, entries

# Files ---------------------------------------------------------------------------------------------------------------


def _folders(path: Path) -> list[Path]:
    return sorted(p for p in entries(path) if p.is_dir() and not p.name.startswith("."))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise VergenceError(f"{path} does not exist") from None
    except (OSError, ValueError) as error:
        raise VergenceError(f"{path} cannot be read: {error}") from None


def read_boxes(path: Path, widths: tuple[int, ...] = (4, 8)) -> Array:
    """The rows of numbers (N, 4 or 8) of a ground-truth file, between commas, tabs or spaces."""
    rows = []
    for number, line in enumerate(_text(path).splitlines(), 1):
        if line.strip():
            try:
                rows.append([float(v) for v in re.split(r"[,\s]+", line.strip().rstrip(","))])
            except ValueError:
                raise VergenceError(f"{path} has no box in line {number}: {line.strip()[:40]!r}") from None
            if len(rows[-1]) not in widths or len(rows[-1]) != len(rows[0]):
                wanted = " or ".join(map(str, widths))
                raise VergenceError(
                    f"{path} has {len(rows[-1])} numbers in line {number}: expected {wanted} in every line"
                )
    if not rows:
        raise VergenceError(f"{path} is empty: expected one box per line")
    boxes = np.array(rows, np.float64)
    first = upright(boxes[:1]) if boxes.shape[1] == 8 else boxes[:1]
    if not known(first)[0]:
        raise VergenceError(f"{path} does not begin with a box ({_listed(boxes[0])}), which initialises the tracker")
    return boxes


def _listed(values: Array) -> str:
    return ",".join(f"{v:g}" for v in values)


def _flags(path: Path, count: int) -> NDArray[np.float64]:
    """One number per frame, in lines or between commas."""
    try:
        flags = np.array([float(v) for v in re.split(r"[,\s]+", _text(path).strip()) if v])
    except ValueError:
        raise VergenceError(f"{path} holds a value that is not a number") from None
    if len(flags) != count:
        raise VergenceError(f"{path} has {len(flags)} values for {count} frames")
    return flags


def _listed_folders(root: Path, pattern: str, expected: str) -> list[Path]:
    """The sequences named by ``list.txt``, or all folders."""
    names = root / "list.txt"
    if names.exists():
        folders = [root / line.strip() for line in _text(names).splitlines() if line.strip()]
        missing = [folder.name for folder in folders if not folder.is_dir()]
        if missing:
            raise VergenceError(f"{names} names {missing[0]!r}, which does not exist")
        if not folders:
            raise VergenceError(f"{names} is empty: expected the name of a sequence in every line")
        return folders
    folders = [p for p in _folders(root) if re.fullmatch(pattern, p.name)]
    if not folders:
        raise VergenceError(f"{root} has no sequences: expected {expected}")
    return folders


def _track(
    folder: Path,
    truth: Path,
    frames: Path,
    *,
    name: str = "",
    widths: tuple[int, ...] = (4,),
    shift: float = 0.0,
    part: tuple[int, int | None] = (0, None),
) -> Track:
    """A sequence of picture files. ``shift`` is the data set's coordinate of the first pixel."""
    numbers = read_boxes(truth, widths)
    polygons = numbers - shift if numbers.shape[1] == 8 else None
    boxes = upright(polygons) if polygons is not None else numbers - [shift, shift, 0, 0]
    return Track(name or folder.name, FileFrames(frames, len(boxes), truth, part), boxes, polygons)


# GOT-10k -------------------------------------------------------------------------------------------------------------


def _read_got10k(path: Path, split: str) -> Tracks:
    """The boxes of its test set are not public, so that ``val`` is used for testing."""
    root = path / ("train" if split == "train" else "val")
    root = root if root.is_dir() else path
    folders = _listed_folders(root, r"GOT-10k_\w+", f"{root.name}/GOT-10k_*/00000001.jpg and groundtruth.txt")
    return Tracks(
        tuple(read_all(partial(_got10k, folder) for folder in folders)),
        "got10k",
        split=root.name if root != path else "",
    )


def _got10k(folder: Path) -> Track:
    track = _track(folder, folder / "groundtruth.txt", folder)
    visible = np.ones(len(track), bool)
    if (folder / "absence.label").exists():
        visible &= _flags(folder / "absence.label", len(track)) == 0
    if (folder / "cover.label").exists():
        visible &= _flags(folder / "cover.label", len(track)) > 0
    return Track(track.name, track.frames, track.boxes, visible=visible)


# OTB -----------------------------------------------------------------------------------------------------------------

OTB_PARTS: Mapping[str, tuple[int, int | None]] = {
    "David": (299, 770),
    "Football1": (0, 74),
    "Freeman3": (0, 460),
    "Freeman4": (0, 283),
    "Diving": (0, 215),
}
"""Sequences with boxes for only a part of the frames."""
OTB_ATTRIBUTES = {
    "IV": "illumination variation",
    "SV": "scale variation",
    "OCC": "occlusion",
    "DEF": "deformation",
    "MB": "motion blur",
    "FM": "fast motion",
    "IPR": "in-plane rotation",
    "OPR": "out-of-plane rotation",
    "OV": "out of view",
    "BC": "background clutter",
    "LR": "low resolution",
}
OTB_2013 = (
    "Basketball Bolt Boy Car4 CarDark CarScale Coke Couple Crossing David David2 David3 Deer Dog1 Doll Dudek FaceOcc1 "
    "FaceOcc2 Fish FleetFace Football Football1 Freeman1 Freeman3 Freeman4 Girl Ironman Jogging Jumping Lemming "
    "Liquor Matrix Mhyang MotorRolling MountainBike Shaking Singer1 Singer2 Skating1 Skiing Soccer Subway Suv "
    "Sylvester Tiger1 Tiger2 Trellis Walking Walking2 Woman "
)
OTB_50 = (
    "Basketball Biker Bird1 BlurBody BlurCar2 BlurFace BlurOwl Bolt Box Car1 Car4 CarDark CarScale ClifBar Couple "
    "Crowds David Deer Diving DragonBaby Dudek Football Freeman4 Girl Human3 Human4 Human6 Human9 Ironman Jump "
    "Jumping Liquor Matrix MotorRolling Panda RedTeam Shaking Singer2 Skating1 Skating2 Skiing Soccer Surfer "
    "Sylvester Tiger2 Trellis Walking Walking2 Woman "
)
OTB_REST = (
    "Bird2 BlurCar1 BlurCar3 BlurCar4 Board Bolt2 Boy Car2 Car24 Coke Coupon Crossing Dancer Dancer2 David2 David3 "
    "Dog Dog1 Doll FaceOcc1 FaceOcc2 Fish FleetFace Football1 Freeman1 Freeman3 Girl2 Gym Human2 Human5 Human7 Human8 "
    "Jogging KiteSurf Lemming Man Mhyang MountainBike Rubik Singer1 Skater Skater2 Subway Suv Tiger1 Toy Trans "
    "Twinnings Vase "
)


def _otb(names: str) -> Callable[[Path, str], Tracks]:
    wanted = names.split()

    def read(path: Path, split: str) -> Tracks:
        """All sequences in every split: OTB is only for testing."""
        folders = [path / name for name in wanted if (path / name).is_dir()]
        if not folders:
            raise VergenceError(
                f"{path} has no sequences of OTB: expected {wanted[0]}/img/0001.jpg and groundtruth_rect.txt"
            )
        targets = [(folder, file) for folder in folders for file in _otb_files(folder)]
        sequences = read_all(partial(_otb_track, path, *target) for target in targets)
        return Tracks(tuple(sequences), "ope", whole=sum(2 if n in ("Jogging", "Skating2") else 1 for n in wanted))

    return read


def _otb_files(folder: Path) -> list[Path]:
    """One file per target; some sequences have two, and one of those (Human4's first) is empty."""
    files = sorted(folder.glob("groundtruth_rect*.txt"))
    return [f for f in files if f.stat().st_size] or files[:1] or [folder / "groundtruth_rect.txt"]


def _otb_track(root: Path, folder: Path, truth: Path) -> Track:
    number = truth.stem.partition(".")[2]  # groundtruth_rect.2.txt
    name = f"{folder.name}.{number}" if number else folder.name
    track = _track(folder, truth, folder / "img", name=name, shift=1.0, part=OTB_PARTS.get(folder.name, (0, None)))
    notes = root / "anno" / "att" / f"{name}.txt"  # as the benchmark's toolbox ships them
    if not notes.exists():
        return track
    flags = _flags(notes, len(OTB_ATTRIBUTES))
    held = {name: bool(flag) for name, flag in zip(OTB_ATTRIBUTES.values(), flags, strict=True)}
    return Track(track.name, track.frames, track.boxes, attributes=held)


# VOT -----------------------------------------------------------------------------------------------------------------

VOT_TAGS = ("camera_motion", "illum_change", "motion_change", "occlusion", "size_change")


def _vot(lengths: tuple[int, int] | None) -> Callable[[Path, str], Tracks]:
    def read(path: Path, split: str) -> Tracks:
        """All sequences in every split: VOT is only for testing. The folder of a single sequence also works."""
        if (path / "groundtruth.txt").exists():
            folders = [path]
        else:
            folders = _listed_folders(
                path, r".+", "bag/00000001.jpg and groundtruth.txt, one polygon of 8 numbers per line"
            )
        return Tracks(tuple(read_all(partial(_vot_track, folder) for folder in folders)), "vot", lengths)

    return read


def _vot_track(folder: Path) -> Track:
    frames = folder / "color" if (folder / "color").is_dir() else folder
    track = _track(folder, folder / "groundtruth.txt", frames, widths=(4, 8))
    held = {}
    for tag in VOT_TAGS:
        file = next((f for f in (folder / f"{tag}.tag", folder / f"{tag}.label") if f.exists()), None)
        if file is not None:
            held[tag.replace("_", " ")] = bool(_flags(file, len(track)).any())
    return Track(track.name, track.frames, track.boxes, track.polygons, attributes=held)


# LaSOT ---------------------------------------------------------------------------------------------------------------

LASOT_TEST = (
    "airplane 1 9 13 15; basketball 1 6 7 11; bear 2 4 6 17; bicycle 2 7 9 18; bird 2 3 15 17; boat 3 4 12 17; book 3 "
    "10 11 19; bottle 1 12 14 18; bus 2 5 17 19; car 2 6 9 17; cat 1 3 18 20; cattle 2 7 12 13; spider 14 16 18 20; "
    "coin 3 6 7 18; crab 3 6 12 18; surfboard 12 4 5 8; cup 1 4 7 17; deer 4 8 10 14; dog 1 7 15 19; guitar 3 8 10 "
    "16; person 1 5 10 12; pig 2 10 13 18; rubicCube 1 6 14 19; swing 10 14 17 20; drone 13 15 2 7; pool 12 15 3 7; "
    "rabbit 10 13 17 19; racing 10 15 16 20; robot 1 19 5 8; sepia 13 16 6 8; sheep 3 5 7 9; skateboard 16 19 3 8; "
    "tank 14 16 6 9; tiger 12 18 4 6; train 1 11 20 7; truck 16 3 6 7; turtle 16 5 8 9; umbrella 17 19 2 9; yoyo 15 "
    "17 19 7; zebra 10 14 16 17; elephant 1 12 16 18; goldfish 3 7 8 10; hat 1 2 5 18; kite 4 6 10 15; motorcycle 1 3 "
    "9 18; mouse 1 8 9 17; flag 3 9 5 2; frog 3 4 20 9; gametarget 1 2 7 13; hand 2 3 9 16; helmet 5 11 19 13; "
    "licenseplate 6 12 13 15; electricfan 1 10 18 20; chameleon 3 6 11 20; crocodile 3 4 10 14; gecko 1 5 16 19; fox "
    "2 3 5 20; giraffe 2 10 13 15; gorilla 4 6 9 13; hippo 1 7 9 20; horse 1 4 12 15; kangaroo 2 5 11 14; leopard 1 7 "
    "16 20; lion 1 5 12 20; lizard 1 3 6 13; microphone 2 6 14 16; monkey 3 4 9 17; shark 2 3 5 6; squirrel 8 11 13 "
    "19; volleyball 1 13 18 19 "
)
"""Numbers of the test sequences, by class."""


def lasot_test() -> frozenset[str]:
    """The names of the test sequences."""
    groups = (group.split() for group in LASOT_TEST.split(";"))
    return frozenset(f"{name}-{number}" for name, *numbers in groups for number in numbers)


def _read_lasot(path: Path, split: str) -> Tracks:
    """Its 280 test sequences; of the others every tenth is for validation, the rest for training."""
    folders = [f for kind in _folders(path) for f in _folders(kind) if re.fullmatch(r".+-\d+", f.name)]
    if not folders:
        raise VergenceError(f"{path} has no sequences of LaSOT: expected airplane/airplane-1/img/00000001.jpg")
    tested = lasot_test()
    trained = [f for f in folders if f.name not in tested]
    part = {
        "train": [f for i, f in enumerate(trained) if len(trained) < 10 or i % 10],
        "val": trained[::10],
        "test": [f for f in folders if f.name in tested],
    }[split]
    if not part:
        raise VergenceError(f"{path} has no sequence of LaSOT's {split} split")
    sequences = read_all(partial(_lasot, folder) for folder in part)
    return Tracks(tuple(sequences), "ope", whole=280 if split == "test" else 0)


def _lasot(folder: Path) -> Track:
    track = _track(folder, folder / "groundtruth.txt", folder / "img", shift=1.0)
    visible, held = np.ones(len(track), bool), {}
    for name in ("full_occlusion", "out_of_view"):
        file = folder / f"{name}.txt"
        if file.exists():
            flags = _flags(file, len(track)) != 0
            visible &= ~flags
            held[name.replace("_", " ")] = bool(flags.any())
    return Track(track.name, track.frames, track.boxes, visible=visible, attributes=held)


# One's own -----------------------------------------------------------------------------------------------------------

TRUTHS = ("groundtruth.txt", "groundtruth_rect.txt")


def read_folder(path: Path, split: str) -> Tracks:
    """Frames and ``groundtruth.txt``: in the folder itself, or in folders below it, or below ``train``, ``val`` and
    ``test``."""
    stands_in = {"train": ["train"], "val": ["val", "test"], "test": ["test", "val"]}[split]
    root = next((path / name for name in stands_in if (path / name).is_dir()), path)
    folders = [f for f in ([root] if _truth(root) else _folders(root)) if _truth(f)]
    if not folders:
        raise VergenceError(f"{root} has no sequences: expected folders of frames with a groundtruth.txt")
    name = split if root == path else root.name
    return Tracks(tuple(read_all(partial(_own, folder) for folder in folders)), split=name)


def _truth(folder: Path) -> Path | None:
    return next((folder / name for name in TRUTHS if (folder / name).exists()), None)


def _own(folder: Path) -> Track:
    frames = next((folder / name for name in ("img", "color") if (folder / name).is_dir()), folder)
    truth = _truth(folder)
    assert truth is not None
    return _track(folder, truth, frames, widths=(4, 8))


LAYOUTS: Mapping[str, Layout] = {
    "got10k": Layout(_read_got10k, "GOT-10k's train and val with list.txt and GOT-10k_*/groundtruth.txt"),
    "otb2013": Layout(_otb(OTB_2013), "OTB's sequences as Name/img/0001.jpg and Name/groundtruth_rect.txt"),
    "otb50": Layout(_otb(OTB_50), "OTB's sequences as Name/img/0001.jpg and Name/groundtruth_rect.txt"),
    "otb100": Layout(_otb(OTB_50 + OTB_REST), "OTB's sequences as Name/img/0001.jpg and Name/groundtruth_rect.txt"),
    "vot2016": Layout(_vot((108, 371)), "VOT's sequences as name/00000001.jpg and name/groundtruth.txt"),
    "vot2017": Layout(_vot((100, 356)), "VOT's sequences as name/00000001.jpg and name/groundtruth.txt"),
    "vot2018": Layout(_vot((100, 356)), "VOT's sequences as name/color/00000001.jpg and name/groundtruth.txt"),
    "vot": Layout(_vot(None), "sequences of VOT, any of them, or one: name/00000001.jpg and name/groundtruth.txt"),
    "lasot": Layout(_read_lasot, "LaSOT's class/class-1/img/00000001.jpg and class/class-1/groundtruth.txt"),
    "folder": Layout(read_folder, "frames with a groundtruth.txt (x,y,width,height per line), or folders of such"),
}
