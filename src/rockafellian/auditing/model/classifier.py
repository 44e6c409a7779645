"""The trained classifier; saved as safetensors and JSON, so that loading it executes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
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
from rockafellian.auditing.features.kinds import Features, Kind, encode
from rockafellian.auditing.model.saved_model import FORMAT, read_description, read_features, read_kind, read_network
from rockafellian.training.checkpoints import load, save
from rockafellian.training.progress import Progress

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
        """Return probabilities (rows, classes) from logits, which must be finite."""
        if not logits.isfinite().all():
            row = int((~logits.isfinite()).any(1).nonzero()[0])
            raise ValueError(
                f"need finite outputs of the network, got NaN or infinity for row {row + 1} of {len(logits)}; "
                "correct extreme values in the row, or train again"
            )
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
        """Return the classifier that `save` wrote; anything else is an error."""
        if missing := [name for name in (DESCRIPTION, TENSORS) if not (folder / name).is_file()]:
            raise FileNotFoundError(f"need a trained model, but {folder} has no {missing[0]}; train again")
        with _broken(folder / DESCRIPTION):
            described = read_description(folder / DESCRIPTION)
            kind = read_kind(described)
        state = load(folder / TENSORS)
        with _broken(folder / TENSORS):
            network = read_network(described, state["network"])
            features = read_features(described, state["features"])
        return cls(kind, features, described.network, network, described.classes, described.multilabel)


@contextmanager
def _broken(path: Path) -> Iterator[None]:
    """Turn whatever is wrong with a saved model into one line."""
    try:
        yield
    except (ImportError, OSError):  # such as an encoder that is no longer installed
        raise
    except Exception as error:  # features may raise anything for a state that is not theirs
        reason = " ".join(str(error).split())
        if not isinstance(error, ValueError):
            reason = f"{type(error).__name__}: {reason}"
        raise ValueError(f"need a trained model, but {path} is not one: {reason}; train again") from error
