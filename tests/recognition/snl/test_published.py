"""The published sizes that contract tests compare networks with, counted by hand from the papers' layers."""

import pytest

from vergence.recognition.snl.system import SYSTEM


def norm(channels):
    return 2 * channels


def snl(channels):
    """θ, φ, g into half the channels, two weights back, and a norm."""
    return 5 * channels * (channels // 2) + norm(channels)


def linear(inputs, outputs):
    return inputs * outputs + outputs


def bottlenecks(inner, depths=(3, 4, 6, 3), widths=(64, 128, 256, 512), expansion=4):
    """The four stages of a ResNet-50, with ``inner(width, stage)`` between the two 1x1 convolutions."""
    total, inputs = 0, 64
    for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
        outputs = expansion * width
        for number in range(depth):
            total += inputs * width + norm(width) + inner(width, stage) + width * outputs + norm(outputs)
            total += 0 if number else inputs * outputs + norm(outputs)
            inputs = outputs
    return total


def basic_blocks():
    """The four stages of a ResNet-34."""
    total, inputs = 0, 64
    for depth, width in zip((3, 4, 6, 3), (64, 128, 256, 512), strict=True):
        for _ in range(depth):
            total += 9 * inputs * width + 9 * width**2 + 2 * norm(width)
            total += inputs * width + norm(width) if inputs != width else 0
            inputs = width
    return total


def preresnet20(classes):
    total, inputs = 9 * 3 * 16, 16
    for width in (16, 32, 64):
        for _ in range(3):
            total += norm(inputs) + 9 * inputs * width + norm(width) + 9 * width**2
            total += inputs * width + norm(width) if inputs != width else 0
            inputs = width
    return total + norm(64) + 64 * 64 + norm(64) + linear(64, classes) + snl(16)


def resnet50(classes):
    flat = bottlenecks(lambda width, stage: 9 * width**2 + norm(width))
    return 49 * 3 * 64 + norm(64) + flat + linear(2048, classes) + snl(1024)


def i3d(classes):
    solid = bottlenecks(lambda width, stage: 27 * width**2 + norm(width))
    return 7**3 * 3 * 64 + norm(64) + solid + linear(2048, classes) + snl(1024)


def mars(classes):
    """A ResNeXt: a channel of a 3 x 3 x 3 sees a thirty-second of those before it. The block in res3."""
    grouped = bottlenecks(lambda w, stage: 27 * w * (w // 32) + norm(w), (3, 4, 23, 3), (128, 256, 512, 1024), 2)
    return 7**3 * 3 * 64 + norm(64) + grouped + linear(2048, classes) + snl(512)


def p3d(classes):
    """Frames one by one in the last stage; a 3 x 1 x 1 beside or after the 1 x 3 x 3 before it. The block in res3."""
    split = bottlenecks(lambda w, stage: 9 * w**2 + norm(w) + (3 * w**2 + norm(w) if stage < 3 else 0))
    return 49 * 3 * 64 + norm(64) + split + linear(2048, classes) + snl(512)


def vtn(classes):
    """A ResNet-34 and four layers with SNL in the place of attention."""
    layer = snl(512) + linear(512, 2048) + linear(2048, 512) + 2 * norm(512)
    return 49 * 3 * 64 + norm(64) + basic_blocks() + 4 * layer + linear(512, classes)


@pytest.mark.parametrize(("preset", "count"), [
    ("paper-cifar10", preresnet20(10)), ("paper-imagenet", resnet50(1000)), ("paper-cub", resnet50(200)),
    ("paper-ucf101", i3d(101)), ("paper-ucf101-p3d", p3d(101)), ("paper-ucf101-vtn", vtn(101)),
    ("paper-ucf101-mars", mars(101)),
    ("paper-mars", resnet50(625)), ("paper-ilids-vid", resnet50(150)), ("paper-prid2011", resnet50(89)),
])  # fmt: skip
def test_published_parameters_are_those_counted_by_hand(preset, count):
    assert SYSTEM.settings.published[preset].parameters == count
