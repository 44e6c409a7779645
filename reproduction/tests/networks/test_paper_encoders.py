from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

import rockafellian as rk
from rockafellian_reproduction.networks import encoders, parameters

transformers = pytest.importorskip("transformers")
pytest.importorskip("peft")
from encoder import SMALL, WORDS, bert, save_encoder, stir  # noqa: E402 - needs transformers


def distilbert() -> object:
    return transformers.DistilBertConfig(**SMALL, dim=8, n_layers=2, n_heads=2, hidden_dim=16)


FAMILIES = pytest.mark.parametrize("config", [bert, distilbert])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_encoder(tmp_path_factory.mktemp("encoder"))


def test_token_ids_are_cut_off_or_padded(folder: Path) -> None:
    ids = encoders.token_ids(folder, ["good film", "a film that nobody should see"], 5)
    words = [[WORDS[i] for i in row] for row in ids.tolist()]
    assert words == [["[CLS]", "good", "film", "[SEP]", "[PAD]"], ["[CLS]", "a", "film", "that", "[SEP]"]]
    assert ids.dtype == torch.int64


@pytest.mark.parametrize("texts", ["one text", []])
def test_texts_that_are_no_list_of_texts_are_refused(folder: Path, texts: object) -> None:
    with pytest.raises(ValueError, match="need one text or more in a list, got"):
        encoders.token_ids(folder, texts, 4)


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"got {tmp_path}; there is no {tmp_path / 'config.json'}"):
        encoders.lora(tmp_path)


def test_distilbert_with_lora_has_the_counts_of_the_paper() -> None:
    with torch.device("meta"):
        alone = transformers.AutoModelForSequenceClassification.from_config(transformers.DistilBertConfig())
        adapted = encoders.lora(transformers.DistilBertConfig())
    assert parameters(alone) == 66_955_010
    assert parameters(adapted) == 67_584_004
    assert parameters(adapted, trainable=True) == 628_994 == 2 * 6 * 2 * 768 * 2 + 590_592 + 1_538


def tokens() -> Tensor:
    """Rows of 3 to 8 tokens, padded to 10."""
    ids = torch.randint(1, len(WORDS), (12, 10), generator=torch.Generator().manual_seed(0))
    return ids.where(torch.arange(10) < 3 + torch.arange(12)[:, None] % 6, 0)


def adapted(config: Callable[[], object], **settings: int) -> nn.Module:
    torch.manual_seed(0)
    model = encoders.lora(config(), **settings)
    stir(model)
    return model


@FAMILIES
def test_the_logits_of_a_text_depend_on_its_own_tokens_only(config: Callable[[], object]) -> None:
    model, ids = adapted(config).eval(), tokens()
    said = model(ids)
    assert said.shape == (12, 2)
    for row, length in enumerate((ids != 0).sum(1)):
        torch.testing.assert_close(model(ids[row : row + 1, :length])[0], said[row], rtol=0, atol=1e-5)
    torch.testing.assert_close(model(pad(ids, (0, 20))), said, rtol=0, atol=1e-5)  # more places than the encoder has


@FAMILIES
def test_only_adapters_and_head_can_be_trained(config: Callable[[], object]) -> None:
    trainable = {name: each for name, each in encoders.lora(config(), rank=3).named_parameters() if each.requires_grad}
    names = set(trainable)
    head = {name for name in names if "classifier.modules_to_save" in name}
    assert len(head) == (4 if config is distilbert else 2)
    adapters = {name for name in names if ".lora_A." in name or ".lora_B." in name}
    assert len(adapters) == 2 * 2 * 2  # two layers, two matrices in each, two factors of each
    assert {name.split(".lora_")[0].split(".")[-1] for name in adapters} == (
        {"q_lin", "v_lin"} if config is distilbert else {"query", "value"}
    )
    assert all(min(trainable[name].shape) == 3 for name in adapters)
    assert names == head | adapters


@FAMILIES
def test_one_epoch_changes_what_can_be_trained_and_nothing_else(config: Callable[[], object]) -> None:
    model, ids = adapted(config, classes=3, rank=4), tokens()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    trainable = {name for name, each in model.named_parameters() if each.requires_grad}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = ids, torch.arange(12) % 3
    rk.fit(model, data, loss=rk.losses.cce, optimizer=optimizer, epochs=1, batch_size=4, progress="quiet")
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == trainable


def test_lora_starts_from_the_weights_in_a_folder(folder: Path) -> None:
    stored = transformers.AutoModel.from_pretrained(folder).embeddings.word_embeddings.weight
    model = encoders.lora(folder, classes=3)
    found = [each for name, each in model.named_parameters() if "word_embeddings" in name]
    assert torch.equal(*found, stored)
    assert model(tokens()).shape == (12, 3)


def test_a_configuration_stays_as_it_was() -> None:
    config = bert()
    encoders.lora(config, classes=5)
    assert config.num_labels == 2


def test_encoders_of_another_family_are_refused() -> None:
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    with pytest.raises(ValueError, match="need an encoder of the family distilbert or bert, got roberta"):
        encoders.lora(transformers.RobertaConfig(**SMALL, **sizes))
