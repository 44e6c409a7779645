"""The trained classifier; saved as safetensors and JSON, so that loading it executes nothing."""

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

#: The version of the saved files.
FORMAT = 1
TENSORS, DESCRIPTION = "model.safetensors", "model.json"
BATCH_SIZE = 256


@dataclass(frozen=True, eq=False)
class Classifier:
    """Features, a network and the names of its classes: rows in, probabilities out."""

    kind: Kind
    features: Features
    description: dict[str, Any]  # of the network
    network: nn.Module
    classes: list[str]
    multilabel: bool  # whether a row may have several labels

    def logits(self, inputs: Tensor) -> Tensor:
        """Return the logits of these inputs, in evaluation mode."""
        device = next(self.network.parameters()).device
        with eval_mode(self.network), torch.no_grad():
            parts = (inputs[start : start + BATCH_SIZE] for start in range(0, len(inputs), BATCH_SIZE))
            return torch.cat([self.network(part.to(device)).cpu() for part in parts])

    def probabilities(self, source: Source, progress: Progress = "quiet") -> NDArray[np.float32]:
        """Return probabilities (rows, classes); those of a row sum to 1 unless it may have several labels."""
        inputs = encode(self.kind, self.features, self.kind.content(source), progress)
        return self.to_probabilities(self.logits(inputs)).numpy()

    def to_probabilities(self, logits: Tensor) -> Tensor:
        """Return probabilities (rows, classes) from logits."""
        return logits.sigmoid() if self.multilabel else logits.softmax(1)

    def decide(self, probabilities: NDArray[np.float32]) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Return the predicted class of each row, or a mask of its classes, and the probability of that prediction."""
        if self.multilabel:
            return probabilities > 0.5, np.maximum(probabilities, 1 - probabilities).prod(1)
        return probabilities.argmax(1), probabilities.max(1)

    def save(self, folder: Path) -> None:
        """Write both files, the one with the tensors last."""
        folder.mkdir(parents=True, exist_ok=True)
        described = {
            "format": FORMAT,
            "kind": self.kind.name,
            "rows": asdict(self.kind),  # type: ignore[call-overload]
            "features": type(self.features).__name__,
            "inputs": self.features.describe(),
            "network": self.description,
            "classes": self.classes,
            "multilabel": self.multilabel,
        }
        with atomic_write(folder / DESCRIPTION) as partial:
            partial.write_text(json.dumps(described, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        save(folder / TENSORS, {"features": self.features.state, "network": self.network.state_dict()})

    @classmethod
    def load(cls, folder: Path) -> Classifier:
        """Return the classifier that `save` wrote."""
        if missing := [name for name in (DESCRIPTION, TENSORS) if not (folder / name).is_file()]:
            raise FileNotFoundError(f"need a trained model, but {folder} has no {missing[0]}; train again")
        described, state = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8")), load(folder / TENSORS)
        if described.get("format") != FORMAT:
            raise ValueError(f"need a model of format {FORMAT}, got {described.get('format')} in {folder}; train again")
        network = build(described["network"])
        network.load_state_dict(state["network"])
        rows = {name: tuple(value) if isinstance(value, list) else value for name, value in described["rows"].items()}
        return cls(
            kind=KINDS[described["kind"]](**rows),
            features=FEATURES[described["features"]].from_state(state["features"]),
            description=described["network"],
            network=network.eval(),
            classes=described["classes"],
            multilabel=described["multilabel"],
        )
