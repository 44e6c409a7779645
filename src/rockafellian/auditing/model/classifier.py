"""A trained classifier of a user's rows in a folder: tensors as safetensors, all else as JSON; nothing is executed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rockafellian._internal.files import atomic_write
from rockafellian._internal.modes import eval_mode
from rockafellian.auditing.data.reading import Source
from rockafellian.auditing.features.kinds import FEATURES, KINDS, Features, Kind, encode
from rockafellian.auditing.model.networks import build
from rockafellian.training.checkpoints import load, save
from rockafellian.training.progress import Progress

#: What a model folder holds; a later format gets another number.
FORMAT = 1
TENSORS, DESCRIPTION = "model.safetensors", "model.json"
BATCH = 256


@dataclass(frozen=True, eq=False)
class Model:
    """Rows in, probabilities of the classes out."""

    kind: Kind
    features: Features
    description: dict[str, Any]  # of the network
    network: nn.Module
    classes: list[str]
    several: bool  # labels a row

    def outputs(self, inputs: Tensor) -> Tensor:
        """The logits of these inputs, in evaluation mode."""
        device = next(self.network.parameters()).device
        with eval_mode(self.network), torch.no_grad():
            parts = (inputs[start : start + BATCH] for start in range(0, len(inputs), BATCH))
            return torch.cat([self.network(part.to(device)).cpu() for part in parts])

    def probabilities(self, source: Source, progress: Progress = "quiet") -> NDArray[np.float32]:
        """By row and class; they add up to 1 unless rows have several labels."""
        return self.said(self.outputs(encode(self.kind, self.features, source, progress))).numpy()

    def said(self, logits: Tensor) -> Tensor:
        """Logits as probabilities."""
        return logits.sigmoid() if self.several else logits.softmax(1)

    def decided(self, probabilities: NDArray[np.float32]) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """The class of each row, or which it has if there are several, and how sure the network is of that."""
        if self.several:
            return probabilities > 0.5, np.maximum(probabilities, 1 - probabilities).prod(1)
        return probabilities.argmax(1), probabilities.max(1)

    def save(self, folder: Path) -> None:
        """Write both files; the one with the tensors comes last."""
        folder.mkdir(parents=True, exist_ok=True)
        described = {
            "format": FORMAT,
            "kind": self.kind.name,
            "rows": asdict(self.kind),  # type: ignore[call-overload]
            "features": type(self.features).__name__,
            "inputs": self.features.describe(),
            "network": self.description,
            "classes": self.classes,
            "several_labels": self.several,
        }
        with atomic_write(folder / DESCRIPTION) as partial:
            partial.write_text(json.dumps(described, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        save(folder / TENSORS, {"features": self.features.state, "network": self.network.state_dict()})

    @classmethod
    def load(cls, folder: Path) -> Model:
        """The model that `save` wrote."""
        if missing := [name for name in (DESCRIPTION, TENSORS) if not (folder / name).is_file()]:
            raise FileNotFoundError(f"need a trained model, but {folder} has no {missing[0]}; train it anew")
        described, state = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8")), load(folder / TENSORS)
        if described.get("format") != FORMAT:
            raise ValueError(
                f"need a model of format {FORMAT}, got {described.get('format')} in {folder}; train it anew"
            )
        network = build(described["network"])
        network.load_state_dict(state["network"])
        rows = {name: tuple(value) if isinstance(value, list) else value for name, value in described["rows"].items()}
        return cls(
            kind=KINDS[described["kind"]](**rows),
            features=FEATURES[described["features"]].from_state(state["features"]),
            description=described["network"],
            network=network.eval(),
            classes=described["classes"],
            several=described["several_labels"],
        )
