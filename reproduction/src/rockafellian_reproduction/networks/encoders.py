"""Texts as vectors from a frozen encoder (`embed`), or as token ids for an encoder adapted by LoRA.

Models come from folders on disk, as transformers saves them; nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rockafellian.auditing.features.embedding import checked, existing, tokenizer
from rockafellian.auditing.features.embedding import embed as embed

#: By the family of the encoder: the layers that LoRA adapts, and those that are trained as they are.
FAMILIES = {
    "distilbert": (("q_lin", "v_lin"), ("pre_classifier", "classifier")),
    "bert": (("query", "value"), ("classifier",)),
}


def fast_dtype() -> torch.dtype:
    """Return float16 if the processor multiplies it, which takes a quarter of the time, else float32.

    The directions of a text's two vectors agree to four digits.
    """
    mkldnn: Any = torch.backends.mkldnn
    fast = mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_fp16_supported()
    return torch.float16 if fast else torch.float32


def token_ids(folder: str | Path, texts: Sequence[str], length: int) -> Tensor:
    """Return the token ids of each text (texts, length), cut off or padded at the end."""
    settings = {"truncation": True, "padding": "max_length", "max_length": length, "return_tensors": "pt"}
    ids: Tensor = tokenizer(folder)(checked(texts), **settings)["input_ids"]
    return ids


def lora(folder_or_config: Any, classes: int = 2, *, rank: int = 2, alpha: int = 8, dropout: float = 0.0) -> nn.Module:
    """Return a classifier of token ids: encoder adapted by LoRA on queries and values, head trained.

    From a folder it starts with the weights there, from a transformers configuration with random ones. DistilBERT at
    rank 2 has the paper's counts: 67,584,004 parameters, 628,994 of them trainable.

    Paper: it names the first count as the one before LoRA. It is the one after, with adapters and, as peft keeps the
    head it replaces, two heads; DistilBERT alone has 66,955,010.
    """
    import transformers  # takes seconds to import

    classifier: Any = transformers.AutoModelForSequenceClassification
    if isinstance(folder_or_config, str | Path):
        folder = existing(folder_or_config)
        model = classifier.from_pretrained(folder, num_labels=classes, local_files_only=True, dtype=torch.float32)
    else:
        model = classifier.from_config(_with_classes(folder_or_config, classes))
    return TokenClassifier(_adapted(model, rank, alpha, dropout), model.config.pad_token_id)


class TokenClassifier(nn.Module):
    """A transformers classifier that takes one tensor, token ids padded at the end."""

    def __init__(self, model: nn.Module, padding: int) -> None:
        super().__init__()
        self.model = model
        self.padding = padding

    def forward(self, ids: Tensor) -> Tensor:
        """Return the logits (batch, classes) for token ids (batch, length)."""
        mask = ids != self.padding
        longest = max(1, int(mask.sum(1).max()))  # beyond it all is padding, which costs as much as words
        logits: Tensor = self.model(input_ids=ids[:, :longest], attention_mask=mask[:, :longest].long()).logits
        return logits


def _adapted(model: Any, rank: int, alpha: int, dropout: float) -> nn.Module:
    import peft  # takes seconds to import

    family = model.config.model_type
    if family not in FAMILIES:
        raise ValueError(f"need an encoder of the family {' or '.join(FAMILIES)}, got {family}")
    adapted, trained = (list(names) for names in FAMILIES[family])
    settings = peft.LoraConfig(
        task_type=peft.TaskType.SEQ_CLS,
        r=rank,
        lora_alpha=alpha,
        lora_dropout=dropout,
        target_modules=adapted,
        modules_to_save=trained,
    )
    return peft.get_peft_model(model, settings)


def _with_classes(config: Any, classes: int) -> Any:
    """Return a copy of the configuration, since transformers writes the number of classes into it."""
    return type(config).from_dict({**config.to_dict(), "num_labels": classes})
