"""Texts for the network: as vectors from a frozen encoder, or as token ids for an encoder adapted by LoRA.

Models come from folders on disk, as transformers saves them; nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.nn.utils.rnn import pad_sequence

#: By the family of the encoder: the layers that LoRA adapts, and those that are trained as they are.
FAMILIES = {
    "distilbert": (("q_lin", "v_lin"), ("pre_classifier", "classifier")),
    "bert": (("query", "value"), ("classifier",)),
}


def embed(
    folder: str | Path,
    texts: Sequence[str],
    length: int = 128,
    batch: int = 64,
    progress: Callable[[int, int], object] | None = None,
) -> Tensor:
    """A vector of length 1 for each text: the mean over its first `length` tokens of what a frozen encoder gives them.

    `progress` is told, after each batch, how many texts are done and how many there are.
    """
    ids = _tokenizer(folder)(_checked(texts), truncation=True, max_length=length)["input_ids"]
    model = _transformers().AutoModel.from_pretrained(folder, local_files_only=True, dtype=torch.float32).eval()
    # Texts of one length share a batch, so that little of it is padding; the longest first, to run out of memory early.
    order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
    parts = []
    for start in range(0, len(order), batch):
        parts.append(_pooled(model, [torch.tensor(ids[i]) for i in order[start : start + batch]]))
        if progress is not None:
            progress(min(start + batch, len(order)), len(order))
    return torch.cat(parts)[torch.tensor(order).argsort()]


def token_ids(folder: str | Path, texts: Sequence[str], length: int) -> Tensor:
    """The tokens of each text (texts, length) as numbers, cut off or padded at the end."""
    settings = {"truncation": True, "padding": "max_length", "max_length": length, "return_tensors": "pt"}
    ids: Tensor = _tokenizer(folder)(_checked(texts), **settings)["input_ids"]
    return ids


def lora(folder_or_config: Any, classes: int = 2, *, rank: int = 2, alpha: int = 8, dropout: float = 0.0) -> nn.Module:
    """A classifier of token ids whose encoder is adapted by LoRA on queries and values, and whose head is trained.

    From a folder it starts with the weights there, from a transformers configuration with random ones. DistilBERT at
    rank 2 has the paper's counts: 67,584,004 parameters, 628,994 of them trainable.

    Paper: it names the first count as the one before LoRA. It is the one after, with adapters and, as peft keeps the
    head it replaces, two heads; DistilBERT alone has 66,955,010.
    """
    automatic = _transformers().AutoModelForSequenceClassification
    if isinstance(folder_or_config, str | Path):
        folder = _existing(folder_or_config)
        model = automatic.from_pretrained(folder, num_labels=classes, local_files_only=True, dtype=torch.float32)
    else:
        model = automatic.from_config(_with_classes(folder_or_config, classes))
    return TokenClassifier(_adapted(model, rank, alpha, dropout), model.config.pad_token_id)


class TokenClassifier(nn.Module):
    """A transformers classifier that takes one tensor, as networks do elsewhere: token ids padded at the end."""

    def __init__(self, model: nn.Module, padding: int) -> None:
        super().__init__()
        self.model = model
        self.padding = padding

    def forward(self, ids: Tensor) -> Tensor:
        """The logits (batch, classes) for token ids (batch, length)."""
        mask = ids != self.padding
        longest = max(1, int(mask.sum(1).max()))  # what lies beyond is padding in every row, and costs as much as words
        logits: Tensor = self.model(input_ids=ids[:, :longest], attention_mask=mask[:, :longest].long()).logits
        return logits


def _pooled(model: nn.Module, ids: list[Tensor]) -> Tensor:
    """The mean over the tokens of each text, padding left out, at length 1."""
    padded = pad_sequence(ids, batch_first=True)  # with any id: the mask hides it
    lengths = torch.tensor([len(each) for each in ids])
    mask = torch.arange(padded.shape[1]) < lengths[:, None]
    with torch.no_grad():
        states = model(input_ids=padded, attention_mask=mask.long()).last_hidden_state
    return normalize((states * mask[:, :, None]).sum(1), dim=1)  # the sum points where the mean does


def _adapted(model: Any, rank: int, alpha: int, dropout: float) -> nn.Module:
    try:
        import peft
    except ImportError as error:
        raise ImportError("need peft for LoRA; pip install 'rockafellian[text]'") from error
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
    """A copy of the configuration, as transformers writes the number of classes into it."""
    return type(config).from_dict({**config.to_dict(), "num_labels": classes})


def _tokenizer(folder: str | Path) -> Any:
    return _transformers().AutoTokenizer.from_pretrained(_existing(folder), local_files_only=True)


def _existing(folder: str | Path) -> Path:
    """The folder; otherwise transformers would take its name for that of a model to download."""
    description = Path(folder) / "config.json"
    if not description.is_file():
        raise ValueError(f"need the folder of a transformers model, got {folder}; there is no {description}")
    return description.parent


def _checked(texts: Sequence[str]) -> list[str]:
    if isinstance(texts, str) or len(texts) == 0:
        raise ValueError(f"need one text or more in a list, got {texts!r}")
    return list(texts)


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise ImportError("need transformers for texts; pip install 'rockafellian[text]'") from error
    return transformers
