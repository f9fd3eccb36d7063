"""Named configs: small ones on embedded data, and the published ones."""

from __future__ import annotations

from vergence.contract.training import Optimiser, Schedule, Training
from vergence.recognition.snl.model import Model
from vergence.recognition.snl.settings import Config, Footage, Objective, Pictures, Tracklets
from vergence.video.synth import Scene

_Channels = tuple[float, float, float]
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_ACTIVITYNET, _BYTES = (0.4501, 0.4225, 0.3901), (1 / 255, 1 / 255, 1 / 255)
"""What the public 3D ResNets see: pixels from 0 to 255, less the mean of ActivityNet."""


# Published ------------------------------------------------------------------------------------------------------------


def _dropping(lr: float, epochs: int, batch: int, milestones: tuple[int, ...], every: int = 1) -> Training:
    """SGD after 10 epochs of warm-up (the tenth has the full rate already), a tenth of the rate at milestones after."""
    at = tuple(10 + milestone for milestone in milestones)
    schedule = Schedule("multistep", unit="epoch", warmup=9, warmup_from=0.01, milestones=at)
    optimiser = Optimiser("sgd", lr=lr, momentum=0.9, weight_decay=1e-4, schedule=schedule)
    return Training(epochs=10 + epochs, batch=batch, evaluate_every=every, optimiser=optimiser)


def _cifar(model: Model, source: str) -> Config:
    view = Pictures(mean=(0.4914, 0.4822, 0.4465), std=(0.2023, 0.1994, 0.2010), source=source)
    return Config(model, view, train=_dropping(0.1, 300, 128, (150, 250), every=5))


def _ucf101(model: Model, mean: _Channels = _MEAN, std: _Channels = _STD) -> Config:
    """The paper gives no schedule: a short one that suits weights learnt on Kinetics."""
    optimiser = Optimiser("sgd", lr=0.01, momentum=0.9, weight_decay=1e-4,
                          schedule=Schedule("multistep", unit="epoch", milestones=(15, 25)))  # fmt: skip
    view = Footage(frames=16, stride=1, rate=0, clips=10, crops=1, size=112, resize=128, jitter=(128, 160), mean=mean,
                   std=std, source="ucf101:UCF-101")  # fmt: skip
    return Config(model, view, pretrained="kinetics.pth", train=Training(epochs=30, batch=16, optimiser=optimiser))


def _temporal_pooling(source: str) -> Config:
    """As the public code of temporal pooling: 8 identities with 4 tracklets of 4 frames in a batch."""
    schedule = Schedule("step", unit="epoch", period=200)
    optimiser = Optimiser("adam", lr=3e-4, weight_decay=5e-4, schedule=schedule)
    return Config(
        Model("resnet50-tp", at=("layer3.4",)),
        Tracklets(source=source, frames=4, height=224, width=112, each=4),
        Objective(smoothing=0.1, margin=0.3),
        pretrained="resnet50.pth",
        train=Training(epochs=800, batch=32, evaluate_every=100, optimiser=optimiser),
    )


# Small ----------------------------------------------------------------------------------------------------------------


def _quick(lr: float, epochs: int, batch: int, warmup: int, every: int = 0) -> Training:
    optimiser = Optimiser("adamw", lr=lr, weight_decay=0.01, schedule=Schedule("cosine", warmup=warmup))
    return Training(epochs=epochs, batch=batch, evaluate_every=every, optimiser=optimiser)


def _tiny_clips(model: Model, training: Training, scene: Scene) -> Config:
    # Not mirrored: a mirrored turn is another one.
    view = Footage(frames=4, stride=1, rate=0, crops=1, size=40, resize=40, jitter=(40, 40), flip=False,
                   std=(0.16, 0.16, 0.16), clip=scene)  # fmt: skip
    return Config(model, view, train=training)


PRESETS = {
    "tiny": Config(
        Model("preresnet-tiny", at=("layer3.0",), dropout=0.0),
        Pictures(size=56, resize=56, augment="flip"),
        train=_quick(0.01, epochs=8, batch=48, warmup=80, every=1),
    ),
    "tiny-sizes": Config(
        Model("preresnet-tiny", at=("layer3.0",), dropout=0.0),
        Pictures(size=56, resize=56, augment="flip", scene="sizes", count=4224),
        train=_quick(0.01, epochs=8, batch=48, warmup=80),
    ),
    "tiny-video": _tiny_clips(
        Model("p3d-tiny", at=("layer2.0",), dropout=0.0), _quick(0.01, epochs=8, batch=32, warmup=60), Scene()
    ),
    # Its transformer takes longer to learn: objects keep their places and are shaded more.
    "tiny-vtn": _tiny_clips(
        Model("vtn-tiny", dropout=0.0), _quick(0.003, epochs=12, batch=32, warmup=60), Scene(moving=0.0, shade=2.0)
    ),
    "tiny-reid": Config(
        Model("resnet-tp-tiny", at=("layer2.0",)),
        Tracklets(height=64, width=32, mean=(0.4, 0.4, 0.4), std=(0.25, 0.25, 0.25)),
        Objective(smoothing=0.1, margin=0.3),
        train=_quick(0.003, epochs=30, batch=32, warmup=30),
    ),
    "paper": _cifar(Model("preresnet56-bottleneck", at=("layer1.1",)), "cifar100:data"),
    "paper-cifar10": _cifar(Model("preresnet20", at=("layer1.1",)), "cifar10:data"),
    "paper-imagenet": Config(
        Model("resnet50", at=("layer3.4",)),
        Pictures(
            size=224,
            resize=256,
            augment="area-flip",
            areas=(0.08, 1.25),
            mean=_MEAN,
            std=_STD,
            source="folder:imagenet",
        ),
        train=_dropping(0.01, 100, 100, (31, 61, 81)),
    ),
    "paper-cub": Config(
        Model("resnet50", at=("layer3.4",)),
        Pictures(size=448, resize=512, augment="crop-flip", mean=_MEAN, std=_STD, source="cub:CUB_200_2011"),
        pretrained="resnet50.pth",
        train=_dropping(0.01, 100, 48, (31, 61, 81)),
    ),
    "paper-ucf101": _ucf101(Model("i3d50", at=("layer3.4",))),
    "paper-ucf101-p3d": _ucf101(Model("p3d63", at=("layer2.2",))),
    "paper-ucf101-mars": _ucf101(Model("resnext3d101", at=("layer2.2",), dropout=0.0), _ACTIVITYNET, _BYTES),
    "paper-ucf101-vtn": _ucf101(Model("vtn", dropout=0.0)),
    "paper-mars": _temporal_pooling("mars:MARS"),
    "paper-ilids-vid": _temporal_pooling("ilids-vid:iLIDS-VID"),
    "paper-prid2011": _temporal_pooling("prid2011:PRID-2011"),
}
