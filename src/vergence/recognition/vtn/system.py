"""VTN as a system: classification and retrieval with maps that are bent by group, by one field, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vergence.contract.system import System
from vergence.recognition.settings import Facts
from vergence.recognition.vtn.claims import CLAIMS
from vergence.recognition.vtn.model import Network, build, load_backbone
from vergence.recognition.vtn.settings import SETTINGS, Config, Inputs
from vergence.recognition.vtn.tasks.landmarks import LandmarkTask
from vergence.recognition.vtn.tasks.pictures import PictureTask

TASKS = (PictureTask(), LandmarkTask())


class VTNSystem(System[Config, Facts, Network, Any, Any]):
    settings = SETTINGS
    tasks = TASKS
    layouts = {name: layout for task in TASKS for name, layout in task.layouts.items()}
    claims = CLAIMS

    def build(self, config: Config, facts: Facts) -> Network:
        return build(config.model, facts.classes, config.data.size)

    def load_pretrained(self, config: Config, model: Network, state: Mapping[str, Any]) -> str:
        return load_backbone(model, state)

    def does_without(self, inputs: Inputs) -> bool:
        """Without weights, a network trained on ImageNet looks at photographs."""
        return True


SYSTEM = VTNSystem()
