# %% [markdown]
# # Noisy fine-tuning data
#
# You fine-tune a text classifier with Hugging Face's `Trainer`, on labels from a crowd, a heuristic or another model.
# Use `RRMTrainer` instead: one import and one argument more.
#
# The texts are made here, 1,200 short reviews, and a small BERT starts from nothing, so that this page downloads
# nothing. A quarter of the labels is made wrong. With texts of your own, load `tokenizer` and `model` with
# `from_pretrained`.

# %%
import random

import torch
import transformers
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers

import rockafellian as rk
from rockafellian.integrations.huggingface import RRMTrainer

random.seed(0)
WORDS = [
    ["dull", "slow", "noisy", "broken", "flimsy", "overpriced", "awful", "useless"],
    ["sturdy", "quick", "quiet", "reliable", "elegant", "cheap", "great", "handy"],
]
THINGS = ["kettle", "lamp", "phone", "chair", "drill", "radio", "bag", "clock"]
FRAMES = [
    "The {} is {} and {}.",
    "I bought this {}: {}, even {}!",
    "My new {} turned out {} and {}.",
    "A {} so {}, so {}.",
]


def review(label):
    first, second = random.sample(WORDS[label], 2)
    if random.random() < 0.2:
        second = random.choice(WORDS[1 - label])  # one word of the other kind
    return random.choice(FRAMES).format(random.choice(THINGS), first, second)


truth = torch.arange(1200) % 2
texts = [review(label) for label in truth.tolist()]
noisy = rk.contamination.uniform(truth, 0.25, seed=0)
print(texts[0], noisy.labels[0].item(), sep="  ->  ")

# %% [markdown]
# ## Tokenizer and model

# %%
words = sorted({word for text in texts for word, _ in pre_tokenizers.Whitespace().pre_tokenize_str(text)})
vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", *words])}
backend = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
backend.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="[PAD]", unk_token="[UNK]")
dataset = Dataset.from_dict({**tokenizer(texts, return_token_type_ids=False), "label": noisy.labels.tolist()})


def new_model():
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    start = {"initializer_range": 0.1, "hidden_dropout_prob": 0.0}
    return transformers.BertForSequenceClassification(
        transformers.BertConfig(vocab_size=len(vocabulary), **sizes, **start)
    )


arguments = transformers.TrainingArguments(
    "fine-tuning",
    num_train_epochs=10,
    per_device_train_batch_size=32,
    learning_rate=3e-3,
    lr_scheduler_type="constant",
    save_strategy="no",
    logging_strategy="no",
    report_to="none",
    disable_tqdm=True,
    use_cpu=True,
)
common = {"args": arguments, "train_dataset": dataset, "data_collator": transformers.DataCollatorWithPadding(tokenizer)}


def train(trainer):
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    predicted = torch.tensor(trainer.predict(dataset).predictions.argmax(1))
    memorized = (predicted == noisy.labels)[noisy.mask].float().mean()
    print(f"{type(trainer).__name__} predicts {memorized:.0%} of the wrong labels")


# %% [markdown]
# ## Trainer, and RRMTrainer

# %%
train(transformers.Trainer(new_model(), **common))

# %%
trainer = RRMTrainer(new_model(), **common, weights=rk.SampleWeights(len(dataset), rk.RRM(crisp=True)))
train(trainer)

# %% [markdown]
# `crisp=True` says that a review is either good or bad. Leave it out where a text may have several right labels.
#
# ## What was found

# %%
weights = trainer.weights
print(weights.estimate.verdict)
print(f"{noisy.mask[weights.removed].float().mean():.0%} of the {weights.n_removed} removed reviews are mislabeled")
found = rk.findings(weights, names=["bad", "good"])
for row in found.worst(5):
    print(f"{texts[row['index']]:45} {row['given_label']} -> {row['predicted_label']}")

# %% [markdown]
# With few texts and two classes, the estimate of the noise rate is uncertain: look at its interval, and if you know
# the rate, give it: `RRM(contamination=0.25)`. Language models, LoRA, several processes, checkpoints: [Hugging
# Face](../../docs/guide/huggingface.md).
