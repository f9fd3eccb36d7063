"""COCO's 80 classes and their ids, which detectors use without naming them."""

from __future__ import annotations

NAMES = (
    "person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat", "traffic light",
    "fire hydrant", "stop sign", "parking meter", "bench", "bird", "cat", "dog", "horse", "sheep", "cow", "elephant",
    "bear", "zebra", "giraffe", "backpack", "umbrella", "handbag", "tie", "suitcase", "frisbee", "skis", "snowboard",
    "sports ball", "kite", "baseball bat", "baseball glove", "skateboard", "surfboard", "tennis racket", "bottle",
    "wine glass", "cup", "fork", "knife", "spoon", "bowl", "banana", "apple", "sandwich", "orange", "broccoli",
    "carrot", "hot dog", "pizza", "donut", "cake", "chair", "couch", "potted plant", "bed", "dining table", "toilet",
    "tv", "laptop", "mouse", "remote", "keyboard", "cell phone", "microwave", "oven", "toaster", "sink",
    "refrigerator", "book", "clock", "vase", "scissors", "teddy bear", "hair drier", "toothbrush",
)  # fmt: skip
UNUSED = {12, 26, 29, 30, 45, 66, 68, 69, 71, 83}
"""Ids from 1 to 90 that no class has."""
BY_ID = dict(zip((number for number in range(1, 91) if number not in UNUSED), NAMES, strict=True))
"""Names by the ids of annotation and result files."""
SYNONYMS = {
    "mug": "cup", "saucer": "plate", "table": "dining table", "desk": "dining table", "sofa": "couch",
    "plant": "potted plant", "ball": "sports ball", "man": "person", "woman": "person", "human": "person",
    "teaspoon": "spoon", "carton": "box", "crate": "box",
}  # fmt: skip
"""Other names of classes; used where a vocabulary lacks the first and has the second."""
