"""Hugging Face's Trainer with RRM: a small BERT, two classes, 30 % label noise. Only the lines marked RRM are new."""

from tempfile import TemporaryDirectory

import torch
import transformers
from datasets import Dataset

import rockafellian as rk  # RRM
from rockafellian.integrations.huggingface import RRMTrainer  # RRM

torch.manual_seed(0)
truth = torch.arange(600) % 2
tokens = torch.randint(4, 14, (600, 16)) + 10 * (torch.rand(600, 16) < 0.8) * truth[:, None]
wrong = torch.rand(600) < 0.3
labels = torch.where(wrong, 1 - truth, truth)
sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
with TemporaryDirectory() as folder:
    trainer = RRMTrainer(  # RRM
        model=transformers.BertForSequenceClassification(transformers.BertConfig(vocab_size=24, **sizes)),
        args=transformers.TrainingArguments(folder, num_train_epochs=10, learning_rate=3e-3, use_cpu=True),
        train_dataset=Dataset.from_dict({"input_ids": tokens.tolist(), "label": labels.tolist()}),
        weights=rk.SampleWeights(600, rk.RRM(crisp=True)),  # RRM
    )
    trainer.train()
weights = trainer.weights
print(f"{wrong[weights.removed].float().mean():.0%} of the {weights.n_removed} removed rows are mislabeled")
