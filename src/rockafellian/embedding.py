"""Texts as vectors from a frozen encoder.

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
    ids = tokenizer(folder)(checked(texts), truncation=True, max_length=length)["input_ids"]
    model = transformers().AutoModel.from_pretrained(folder, local_files_only=True, dtype=torch.float32).eval()
    # Texts of one length share a batch, so that little of it is padding; the longest first, to run out of memory early.
    order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
    parts = []
    for start in range(0, len(order), batch):
        parts.append(_pooled(model, [torch.tensor(ids[i]) for i in order[start : start + batch]]))
        if progress is not None:
            progress(min(start + batch, len(order)), len(order))
    return torch.cat(parts)[torch.tensor(order).argsort()]


def tokenizer(folder: str | Path) -> Any:
    """The tokenizer of the model in a folder."""
    return transformers().AutoTokenizer.from_pretrained(existing(folder), local_files_only=True)


def existing(folder: str | Path) -> Path:
    """The folder; otherwise transformers would take its name for that of a model to download."""
    description = Path(folder) / "config.json"
    if not description.is_file():
        raise ValueError(f"need the folder of a transformers model, got {folder}; there is no {description}")
    return description.parent


def checked(texts: Sequence[str]) -> list[str]:
    """The texts as the list that a tokenizer wants; one text alone would pass for a list of letters."""
    if isinstance(texts, str) or len(texts) == 0:
        raise ValueError(f"need one text or more in a list, got {texts!r}")
    return list(texts)


def transformers() -> Any:
    """The package, which takes seconds to load, once it is needed."""
    try:
        import transformers
    except ImportError as error:
        raise ImportError("need transformers for texts; pip install 'rockafellian[text]'") from error
    return transformers


def _pooled(model: nn.Module, ids: list[Tensor]) -> Tensor:
    """The mean over the tokens of each text, padding left out, at length 1."""
    padded = pad_sequence(ids, batch_first=True)  # with any id: the mask hides it
    lengths = torch.tensor([len(each) for each in ids])
    mask = torch.arange(padded.shape[1]) < lengths[:, None]
    with torch.no_grad():
        states = model(input_ids=padded, attention_mask=mask.long()).last_hidden_state
    return normalize((states * mask[:, :, None]).sum(1), dim=1)  # the sum points where the mean does
