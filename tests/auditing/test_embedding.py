import re
import sys
from pathlib import Path

import pytest
import torch

from rockafellian._internal.extras import install_command
from rockafellian.auditing.features.embedding import embed, tokenizer

transformers = pytest.importorskip("transformers")
from encoder import TEXTS, WORDS, save_encoder  # noqa: E402 - needs transformers


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_encoder(tmp_path_factory.mktemp("encoder"))


def test_an_embedding_is_the_mean_over_the_tokens_at_length_one(folder: Path) -> None:
    model = transformers.AutoModel.from_pretrained(folder).eval()
    found = embed(folder, TEXTS, length=6, batch=4)
    for row, text in zip(found, TEXTS, strict=True):
        ids = [WORDS.index(word) for word in ["[CLS]", *text.split()[:4], "[SEP]"]]
        with torch.no_grad():
            mean = model(input_ids=torch.tensor([ids])).last_hidden_state[0].mean(0)
        torch.testing.assert_close(row, mean / mean.norm(), rtol=0, atol=1e-5)
    assert (found @ found.T < 0.999).sum() == 30  # no two alike, or rows could be exchanged unseen


def test_embeddings_do_not_depend_on_order_and_batch(folder: Path) -> None:
    found = embed(folder, TEXTS)
    torch.testing.assert_close(embed(folder, TEXTS[::-1], batch=1).flip(0), found, rtol=0, atol=1e-5)
    torch.testing.assert_close(embed(folder, TEXTS, batch=4), found, rtol=0, atol=1e-5)


def test_embedding_leaves_no_gradients_and_tells_how_far_it_is(folder: Path) -> None:
    told: list[tuple[int, int]] = []
    found = embed(folder, TEXTS, batch=4, progress=lambda done, total: told.append((done, total)))
    assert not found.requires_grad
    assert told == [(4, 6), (6, 6)]


@pytest.mark.parametrize("texts", ["one text", []])
def test_texts_that_are_no_list_of_texts_are_refused(folder: Path, texts: object) -> None:
    with pytest.raises(ValueError, match="need one text or more in a list, got"):
        embed(folder, texts)


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"got {tmp_path}; there is no {tmp_path / 'config.json'}"):
        embed(tmp_path, ["a"])


def test_missing_transformers_are_named_with_their_extra(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match=re.escape(f"need transformers for texts; {install_command('text')}")):
        embed(folder, ["a"])


def test_transformers_is_as_talkative_afterwards_as_it_was(folder: Path) -> None:
    import transformers

    transformers.logging.set_verbosity_info()
    try:
        embed(folder, ["a"])
        assert transformers.logging.get_verbosity() == transformers.logging.INFO
    finally:
        transformers.logging.set_verbosity_warning()


def test_a_long_text_is_read_in_pieces_and_no_more_of_them_than_set(folder: Path) -> None:
    long = "good good good good bad bad bad bad film film film film"
    one, two, all_of_it = (embed(folder, [long, "good"], length=6, pieces=pieces) for pieces in (1, 2, 9))
    assert not torch.allclose(one[0], two[0], atol=1e-4)
    assert not torch.allclose(two[0], all_of_it[0], atol=1e-4)
    torch.testing.assert_close(one[1], all_of_it[1])  # a short text is one piece


def test_an_encoder_can_be_left_halfway_up(folder: Path) -> None:
    from transformers import AutoModel

    whole = AutoModel.from_pretrained(folder, local_files_only=True).eval()
    ids = tokenizer(folder)(["a good film"], return_tensors="pt")
    with torch.no_grad():
        middle = whole(**ids, output_hidden_states=True).hidden_states[1].mean(1)
    torch.testing.assert_close(embed(folder, ["a good film"], depth=0.5), middle / middle.norm(), rtol=0, atol=1e-5)


def test_half_precision_hardly_changes_an_embedding(folder: Path) -> None:
    exact, half = (embed(folder, TEXTS, dtype=dtype) for dtype in (torch.float32, torch.float16))
    assert half.dtype == torch.float32
    assert 0 < float((exact - half).abs().max()) < 1e-2
