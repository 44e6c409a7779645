"""A small encoder with random weights, in a folder as transformers saves them."""

import json
from pathlib import Path

import torch
import transformers
from torch import nn

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS += ["a", "film", "that", "nobody", "should", "ever", "see", "again", "was", "good", "bad", "."]
TEXTS = ["a good film .", "bad", "a film that nobody should see .", "", "see a bad bad film again .", "good ."]
SMALL = {"vocab_size": len(WORDS), "max_position_embeddings": 16}


def bert() -> object:
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    return transformers.BertConfig(**SMALL, **sizes)


def stir(model: nn.Module) -> None:
    """Random weights so large that texts differ by more than rounding."""
    for parameter in model.parameters():
        if parameter.ndim > 1:
            nn.init.normal_(parameter, std=0.5)


def save_encoder(folder: Path) -> Path:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = transformers.AutoModel.from_config(bert())
        stir(model)
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))
    return folder
