"""Texts as vectors from a frozen encoder.

Models come from folders on disk, as transformers saves them; nothing is downloaded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.nn.utils.rnn import pad_sequence

from rockafellian._internal.extras import missing


def embed(
    folder: str | Path,
    texts: Sequence[str],
    length: int = 128,
    batch: int = 64,
    progress: Callable[[int, int], object] | None = None,
    *,
    pieces: int = 1,
    depth: float = 1.0,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Return a vector of length 1 for each text: the mean of a frozen encoder's outputs over the tokens.

    Args:
        folder: of a transformers model.
        texts: one or more.
        length: tokens in a piece of text; what is longer is cut into pieces.
        batch: pieces in a batch.
        progress: gets the number of pieces done and of all pieces after each batch.
        pieces: how many pieces of a text are read; the rest is left out.
        depth: the fraction of the encoder's layers that are used.
        dtype: in which the encoder computes.
    """
    ids, owners = _cut(tokenizer(folder), checked(texts), length, pieces)
    model = _encoder(folder, depth).to(dtype)
    # Texts of similar length share a batch, which saves padding; the longest first, to run out of memory early.
    order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
    totals: Tensor | None = None
    for start in range(0, len(order), batch):
        some = order[start : start + batch]
        summed = _summed(model, [torch.tensor(ids[i]) for i in some])
        totals = torch.zeros(len(texts), summed.shape[1]) if totals is None else totals
        totals.index_add_(0, torch.tensor([owners[i] for i in some]), summed)
        if progress is not None:
            progress(start + len(some), len(order))
    assert totals is not None
    return normalize(totals, dim=1)  # the sum points where the mean does


def tokenizer(folder: str | Path) -> Any:
    """Return the tokenizer of the model in a folder."""
    return transformers().AutoTokenizer.from_pretrained(existing(folder), local_files_only=True)


def existing(folder: str | Path) -> Path:
    """Return the folder if it holds a model; transformers would take its name for that of a model to download."""
    description = Path(folder) / "config.json"
    if not description.is_file():
        raise ValueError(f"need the folder of a transformers model, got {folder}; there is no {description}")
    return description.parent


def checked(texts: Sequence[str]) -> list[str]:
    """Return the texts as a list; one text alone would pass for a list of letters."""
    if isinstance(texts, str) or len(texts) == 0:
        raise ValueError(f"need one text or more in a list, got {str(texts)[:40]!r}; put it in a list")
    return list(texts)


def transformers() -> Any:
    """Import transformers when it is needed, as that takes seconds."""
    try:
        import transformers
    except ImportError as error:
        raise missing("transformers for texts", "text") from error
    return transformers


def _cut(tokens: Any, texts: list[str], length: int, pieces: int) -> tuple[list[list[int]], list[int]]:
    """Pieces of `length` tokens, at most `pieces` of a text, and the index of the text that each piece is from."""
    if pieces == 1:
        return tokens(texts, truncation=True, max_length=length)["input_ids"], list(range(len(texts)))
    cut = tokens(texts, truncation=True, max_length=length, return_overflowing_tokens=True)
    seen: Counter[int] = Counter()
    ids, owners = [], []
    for piece, owner in zip(cut["input_ids"], cut["overflow_to_sample_mapping"], strict=True):
        seen[owner] += 1
        if seen[owner] <= pieces:
            ids.append(piece)
            owners.append(owner)
    return ids, owners


def _encoder(folder: str | Path, depth: float) -> nn.Module:
    """The encoder, without its last layers if `depth` is below 1."""
    package = transformers()
    settings: dict[str, Any] = {"local_files_only": True, "dtype": torch.float32}
    if depth < 1:
        layers = package.AutoConfig.from_pretrained(folder, local_files_only=True).num_hidden_layers
        settings["num_hidden_layers"] = max(1, round(depth * layers))
    before = package.logging.get_verbosity()
    package.logging.set_verbosity_error()  # it would warn of the weights of unused layers
    package.logging.disable_progress_bar()
    try:
        model: nn.Module = package.AutoModel.from_pretrained(folder, **settings).eval()
    finally:
        package.logging.set_verbosity(before)
        package.logging.enable_progress_bar()
    return model


def _summed(model: nn.Module, ids: list[Tensor]) -> Tensor:
    """The sum of the outputs over the tokens of each text, without padding."""
    padded = pad_sequence(ids, batch_first=True)  # with any id: the mask hides it
    lengths = torch.tensor([len(each) for each in ids])
    mask = torch.arange(padded.shape[1]) < lengths[:, None]
    with torch.no_grad():
        states = model(input_ids=padded, attention_mask=mask.long()).last_hidden_state.float()
    total: Tensor = (states * mask[:, :, None]).sum(1)
    return total
