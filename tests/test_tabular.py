import json

import numpy as np
import pytest

import tabular

CELL = tabular.Cell("cancer", "logistic regression", 0.2, 100)


@pytest.fixture(scope="module")
def record() -> dict[str, object]:
    return json.loads(tabular.RESULTS.read_text())  # type: ignore[no-any-return]


def test_the_page_on_tables_is_written_from_the_record(record: dict[str, object]) -> None:
    assert tabular.PAGE.read_text() == tabular.render(record)


def test_every_cell_is_on_record_with_all_methods(record: dict[str, list[dict[str, object]]]) -> None:
    keys = list(vars(CELL))
    assert [tuple(each[key] for key in keys) for each in record["cells"]] == [
        tuple(vars(cell).values()) for cell in tabular.cells()
    ]
    assert all(list(each["methods"]) == list(tabular.METHODS) for each in record["cells"])  # type: ignore[call-overload]


def test_rrm_is_not_behind_clean_learning_on_average_at_no_more_cost(
    record: dict[str, list[dict[str, object]]],
) -> None:
    assert [met for *_, met in tabular.targets(record["cells"])] == [True, True, True]


def test_training_labels_have_noise_and_the_test_is_clean() -> None:
    noisy, clean = (tabular.draw("digits", share, seed=3) for share in (0.4, 0.0))
    assert noisy.wrong.mean() == pytest.approx(0.4, abs=1e-3)
    np.testing.assert_array_equal(noisy.wrong, noisy.y != clean.y)
    np.testing.assert_array_equal(noisy.test_y, clean.test_y)
    assert len(noisy.x) + len(noisy.test_x) == 1797


def test_a_cell_is_measured_and_judged() -> None:
    found = tabular.measure(CELL)
    assert json.loads(json.dumps(found)) == found
    methods = found["methods"]
    assert methods["alone"]["f1"] is None
    assert methods["RRM"]["f1"] > 0.8
    assert methods["RRM"]["accuracy"] > methods["alone"]["accuracy"]
    worse = json.loads(json.dumps(found))
    worse["methods"]["RRM"] |= {"accuracy": 0.0, "f1": 0.0, "seconds": 1e9}
    assert [met for *_, met in tabular.targets([worse])] == [False, False, False]
    clean = {**found, "share": 0.0}
    page = tabular.render(
        {
            "command": "make tabular",
            "date": "",
            "machine": tabular.records.about("make tabular", "scikit-learn", "cleanlab")["machine"],
            "cells": [worse, clean],
        }
    )
    assert "accuracy 0.0" in page
    assert "| **no** |" in page
