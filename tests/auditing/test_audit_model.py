"""A trained classifier in a folder: what is loaded predicts what was saved, and nothing else is loaded."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from samples import image_folder, table, texts

import rockafellian as rk
from rockafellian.auditing.data.reading import read
from rockafellian.auditing.model.classifier import BATCH_SIZE, DESCRIPTION, TENSORS, Classifier


@pytest.fixture(scope="module")
def trained() -> Classifier:
    return rk.audit(table(200)[0], "label", contamination=0.2, epochs=10, progress="quiet").model


def test_a_loaded_table_model_predicts_the_same(trained: Classifier, tmp_path: Path) -> None:
    trained.save(tmp_path / "deep" / "model")
    loaded = Classifier.load(tmp_path / "deep" / "model")
    new = read(table(40, seed=3)[0])
    np.testing.assert_array_equal(trained.probabilities(new), loaded.probabilities(new))
    assert loaded.classes == ["cat", "dog"]
    assert not loaded.network.training
    assert {path.name for path in (tmp_path / "deep" / "model").iterdir()} == {DESCRIPTION, TENSORS}


def test_a_loaded_text_model_predicts_the_same(tmp_path: Path) -> None:
    frame, _ = texts(60)
    model = rk.audit(frame, "label", contamination=0.2, epochs=10, encoder="none", progress="quiet").model
    model.save(tmp_path)
    new = read(texts(20, seed=1)[0])
    np.testing.assert_array_equal(model.probabilities(new), Classifier.load(tmp_path).probabilities(new))


def test_a_loaded_image_model_predicts_the_same(tmp_path: Path) -> None:
    image_folder(tmp_path / "images", 40)
    model = rk.audit(tmp_path / "images", contamination=0.2, epochs=10, progress="quiet").model
    model.save(tmp_path / "model")
    new = read(tmp_path / "images")
    np.testing.assert_array_equal(model.probabilities(new), Classifier.load(tmp_path / "model").probabilities(new))


def test_many_rows_are_predicted_in_batches_and_the_batches_do_not_matter(trained: Classifier) -> None:
    new = table(2 * BATCH_SIZE + 7, seed=4)[0]
    whole = trained.probabilities(read(new))
    one_by_one = np.concatenate(
        [trained.probabilities(read(new.iloc[[row]])) for row in (0, BATCH_SIZE, 2 * BATCH_SIZE + 6)]
    )
    np.testing.assert_allclose(whole[[0, BATCH_SIZE, 2 * BATCH_SIZE + 6]], one_by_one, atol=1e-6)
    np.testing.assert_allclose(whole.sum(1), 1, atol=1e-6)


def test_the_order_of_columns_and_columns_that_are_not_needed_do_not_matter(trained: Classifier) -> None:
    new = table(40, seed=3)[0]
    shuffled = new[["seen", "label", "colour", "width", "id", "height"]].assign(more=1)
    np.testing.assert_array_equal(trained.probabilities(read(new)), trained.probabilities(read(shuffled)))


def test_text_and_typed_cells_are_the_same_to_a_model(trained: Classifier, tmp_path: Path) -> None:
    new = table(40, seed=3)[0]
    new.to_csv(tmp_path / "new.csv", index=False)
    new.to_parquet(tmp_path / "new.parquet")
    typed, text = (trained.probabilities(read(tmp_path / f"new.{kind}")) for kind in ("parquet", "csv"))
    np.testing.assert_array_equal(typed, text)


def test_a_missing_column_is_named(trained: Classifier) -> None:
    with pytest.raises(ValueError, match="'height' is missing"):
        trained.probabilities(read(table(40)[0].drop(columns="height")))


def test_a_folder_without_a_model_is_refused(trained: Classifier, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=f"has no {DESCRIPTION}"):
        Classifier.load(tmp_path)
    trained.save(tmp_path)
    (tmp_path / TENSORS).unlink()
    with pytest.raises(FileNotFoundError, match=f"has no {TENSORS}"):
        Classifier.load(tmp_path)


def test_a_model_of_another_format_is_refused(trained: Classifier, tmp_path: Path) -> None:
    trained.save(tmp_path)
    described = json.loads((tmp_path / DESCRIPTION).read_text())
    (tmp_path / DESCRIPTION).write_text(json.dumps({**described, "format": 99}))
    with pytest.raises(ValueError, match=r"need a model of format 2, got 99; train again"):
        Classifier.load(tmp_path)


def test_names_of_classes_in_any_script_survive(tmp_path: Path) -> None:
    frame = table(60)[0]
    frame["label"] = frame["label"].map({"cat": "猫 <b>", "dog": '"=1\n'})
    model = rk.audit(frame, "label", contamination=0.2, epochs=10, progress="quiet").model
    model.save(tmp_path)
    assert Classifier.load(tmp_path).classes == model.classes == sorted(['"=1', "猫 <b>"])
    assert pd.DataFrame(model.probabilities(read(frame))).shape == (60, 2)
