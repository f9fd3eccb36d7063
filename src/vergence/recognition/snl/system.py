"""SNL as a system: networks with and without nonlocal blocks, on pictures, videos and tracklets; and blocks alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from vergence.contract.system import System
from vergence.recognition.settings import Facts, Tokens
from vergence.recognition.snl.claims import CLAIMS
from vergence.recognition.snl.model import Network, build, load_backbone
from vergence.recognition.snl.settings import SETTINGS, Config, Inputs
from vergence.recognition.snl.tasks.pictures import PictureTask
from vergence.recognition.snl.tasks.tokens import TokenTask
from vergence.recognition.snl.tasks.tracklets import TrackletTask
from vergence.recognition.snl.tasks.videos import VideoTask

TASKS = (PictureTask(), VideoTask(), TrackletTask(), TokenTask())


class SNLSystem(System[Config, Facts, Network, Any, Any]):
    settings = SETTINGS
    tasks = TASKS
    layouts = {name: layout for task in TASKS for name, layout in task.layouts.items()}
    claims = CLAIMS

    def build(self, config: Config, facts: Facts) -> Network:
        return build(config.model, config.data.width if isinstance(config.data, Tokens) else facts.classes)

    def load_pretrained(self, config: Config, model: Network, state: Mapping[str, Tensor]) -> str:
        return load_backbone(model, state)

    def does_without(self, inputs: Inputs) -> bool:
        """Pictures alone: without weights, a network trained on ImageNet looks at them."""
        return bool(inputs.images) and not inputs.videos and inputs.query is None


SYSTEM = SNLSystem()
