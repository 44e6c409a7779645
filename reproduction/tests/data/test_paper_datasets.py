"""Each data set by its one call, from tiny files in every form it comes in."""

import csv
import gzip
import json
import pickle
from collections.abc import Callable
from pathlib import Path

import msgpack
import numpy as np
import pytest
import test_paper_formats as image_files
import test_paper_texts as text_files
import torch
from test_paper_words import write_vocab
from tiny import fitted

from rockafellian_reproduction import datasets
from rockafellian_reproduction.data.formats import HUMAN
from rockafellian_reproduction.data.sources import SOURCES


@pytest.fixture
def fit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Path]:
    """Takes the files in the folder for those of a source, and tells the folder."""
    monkeypatch.setenv("ROCKAFELLIAN_CACHE", str(tmp_path / "cache"))
    real = dict(SOURCES)

    def fit(name: str, per_class: tuple[int, ...] = ()) -> Path:
        monkeypatch.setitem(SOURCES, name, fitted(real[name], tmp_path, per_class))
        return tmp_path

    return fit


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_mnist_has_ten_digits_or_three_of_them_in_the_same_order(tmp_path: Path, fit, suffix: str) -> None:
    random, labels = np.random.default_rng(0), {"train": [5, 0, 2, 3, 1, 0], "t10k": [3, 2, 2]}
    for split, digits in labels.items():
        parts = {"images-idx3": random.integers(0, 256, (len(digits), 28, 28)), "labels-idx1": np.array(digits)}
        for kind, array in parts.items():
            content = image_files.idx(array)
            (tmp_path / f"{split}-{kind}-ubyte{suffix}").write_bytes(gzip.compress(content) if suffix else content)
    ten, three = (datasets.images(name, fit(name)) for name in ("mnist-10", "mnist-3"))
    assert ten.train_x.shape == (6, 28, 28)
    assert ten.train_x.dtype == torch.uint8
    assert ten.train_y.dtype == torch.int64
    assert ten.train_y.tolist() == labels["train"]
    assert three.train_y.tolist() == [0, 2, 1, 0]
    assert three.test_y.tolist() == [2, 2]
    assert torch.equal(three.train_x, ten.train_x[[1, 2, 4, 5]])
    assert torch.equal(three.test_x, ten.test_x[1:])
    assert torch.equal(datasets.images("fashion-mnist", fit("fashion-mnist")).train_x, ten.train_x)


@pytest.mark.parametrize("layout", image_files.LAYOUTS)
def test_cifar_is_read_in_every_layout(tmp_path: Path, fit, layout: str) -> None:
    image_files.LAYOUTS[layout][0](tmp_path)
    folder = fit("cifar-10")
    found = datasets.images("cifar-10", folder)
    assert torch.equal(found.train_x, torch.from_numpy(np.ascontiguousarray(image_files.TRAIN)))
    assert found.test_y.tolist() == image_files.batch(5)[1]


def test_files_without_a_checksum_must_have_as_many_rows_of_each_class_as_is_known(tmp_path: Path, fit) -> None:
    image_files.write_binary(tmp_path)
    with pytest.raises(ValueError, match=rf"need 5000 rows of each class in {tmp_path}, got \[.*\]; fetch it again"):
        datasets.images("cifar-10", tmp_path)
    text_files.write_folder(tmp_path / "aclImdb")
    with pytest.raises(ValueError, match=r"need 12500 rows of each class in .*aclImdb"):
        datasets.reviews(tmp_path)


def test_files_of_another_version_are_refused(tmp_path: Path) -> None:
    image_files.write_png(tmp_path)
    with pytest.raises(ValueError, match=r"data_batch_1\.png with sha256 9a148385817b16e1"):
        datasets.images("cifar-10", tmp_path)


def test_tissue_has_true_labels_if_there_is_a_file_of_them(tmp_path: Path) -> None:
    image_files.write_tiles(tmp_path)
    found = datasets.images("tissue", tmp_path)
    assert found.train_x.shape == (3, 256, 256, 3)
    assert found.train_y.tolist() == [0, 1, 1]
    assert datasets.tissue_truth(tmp_path) is None
    (tmp_path / "truth.csv").write_text("file,label\nnecrosis/b.png,1\nnecrosis/a.jpg,0\nnon-necrosis/a.PNG,0\n")
    truth = datasets.tissue_truth(tmp_path)
    assert truth is not None
    assert truth.tolist() == [0, 0, 1]


def test_human_labels_have_plain_names(tmp_path: Path, fit) -> None:
    labels = {name: np.arange(3) + number for number, name in enumerate(HUMAN.values())}
    (tmp_path / "CIFAR-10_human.pt").write_bytes(image_files.torch_zip(pickle.dumps(labels, 2)))
    found = datasets.human_labels(fit("cifar-10n"))
    assert list(found) == ["aggregate", "random1", "random2", "random3", "worst", "true"]
    assert found["worst"].tolist() == [4, 5, 6]
    assert found["worst"].dtype == torch.int64


def test_reviews_are_the_same_from_the_archive_and_the_folder(tmp_path: Path, fit) -> None:
    (tmp_path / "aclImdb_v1.tar.gz").write_bytes(text_files.acl_archive())
    first = datasets.reviews(fit("imdb"))
    text_files.expect(first)
    assert first.train_y.dtype == torch.int64
    (tmp_path / "aclImdb_v1.tar.gz").unlink()
    text_files.write_folder(tmp_path / "aclImdb")
    text_files.expect(datasets.reviews(fit("imdb")))


def test_reviews_come_from_the_json_and_from_kaggles_csv(tmp_path: Path, fit) -> None:
    rows = [{"t": text, "s": int("pos" in text)} for text in ("test neg", "train neg", "test pos", "train pos")]
    (tmp_path / "reviews.json").write_text(json.dumps(rows))
    found = datasets.reviews(fit("imdb"))
    assert (found.train, found.test) == (["train neg", "train pos"], ["test neg", "test pos"])
    (tmp_path / "reviews.json").unlink()
    with (tmp_path / "IMDB Dataset.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [["review", "sentiment"], ["a", "positive"], ["b", "positive"], *[["c", "negative"]] * 2]
        )
    found = datasets.reviews(fit("imdb", (2,)))  # halves need not have as many of either
    assert (found.train, found.train_y.tolist(), found.test) == (["a", "b"], [1, 1], ["c", "c"])
    with pytest.raises(ValueError, match="need 3 rows of each class"):
        datasets.reviews(fit("imdb", (3,)))


def test_comments_have_one_label_or_six(tmp_path: Path, fit) -> None:
    (tmp_path / "clean_data.csv").write_text("is_offensive,text\n1,bad\n0,good\n")
    found, labels = datasets.comments(fit("toxic"))
    assert (found, labels.tolist(), labels.dtype) == (["bad", "good"], [1, 0], torch.int64)
    (tmp_path / "clean_data.csv").unlink()
    header = "id,comment_text,toxic,severe_toxic,obscene,threat,insult,identity_hate"
    (tmp_path / "train.csv").write_text(f"{header}\n7,bad,1,0,1,0,0,0\n")
    found, labels = datasets.comments(tmp_path)
    assert (found, labels.tolist()) == (["bad"], [[1, 0, 1, 0, 0, 0]])


def test_word_vectors_come_from_spacy_or_fasttext(tmp_path: Path, fit) -> None:
    write_vocab(tmp_path)
    vectors = datasets.word_vectors(fit("word-vectors"))
    assert vectors.rows(datasets.tokens("Good? Bad! Unheard.")) == [1, 2, 0]
    assert vectors.table[0].tolist() == [0, 0, 0]
    (tmp_path / "vectors").unlink()
    (tmp_path / "a.vec").write_text("1 2\ngood 1 2\n")
    assert datasets.word_vectors(tmp_path).rows(["bad", "good"]) == [0, 1]
    assert msgpack.unpackb((tmp_path / "key2row").read_bytes(), strict_map_key=False)  # which alone is no form


def test_an_encoder_is_a_folder(tmp_path: Path, fit) -> None:
    for file in SOURCES["minilm"].forms[0].files:
        (tmp_path / file.name).write_text(file.name)
    with pytest.raises(ValueError, match=r"config\.json with sha256"):
        datasets.encoder_folder("minilm", tmp_path)
    assert datasets.encoder_folder("minilm", fit("minilm")) == tmp_path


@pytest.mark.parametrize(
    ("ask", "match"),
    [
        (
            lambda: datasets.images("imdb"),
            "need one of mnist-10, mnist-3, fashion-mnist, cifar-10, tissue for images; got 'imdb'",
        ),
        (
            lambda: datasets.encoder_folder("mnist-3"),
            "need one of minilm, distilbert, resnet-50 for encoders; got 'mnist-3'",
        ),
    ],
)
def test_a_name_of_another_kind_lists_the_valid_ones(ask: Callable[[], object], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        ask()
