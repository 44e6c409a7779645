"""A user's data made ready, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from samples import table, texts

from rockafellian.auditing.data.settings import Settings
from rockafellian.auditing.model.problem import Problem, find_conflicts, prepare


def ready(frame: Any, label: str = "label", **more: Any) -> Problem:
    return prepare(frame, Settings(label=(label,), **more))


def conflicts_one_by_one(same: list[int], given: list[Any]) -> list[list[int]]:
    groups: dict[int, list[int]] = {}
    for row, content in enumerate(same):
        groups.setdefault(content, []).append(row)
    return [rows for rows in groups.values() if len({given[row] for row in rows}) > 1]


@given(st.lists(st.tuples(st.sampled_from([0, 1, 2, 2**63, 2**64 - 1]), st.integers(0, 2)), min_size=1, max_size=30))
def test_conflicts_are_those_that_a_search_row_by_row_finds(rows: list[tuple[int, int]]) -> None:
    same, labels = [row[0] for row in rows], [row[1] for row in rows]
    found = find_conflicts(np.array(same, np.uint64), np.array(labels))
    assert [group.tolist() for group in found] == conflicts_one_by_one(same, labels)


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.tuples(st.booleans(), st.booleans(), st.booleans())), min_size=1, max_size=20
    )
)
def test_sets_of_labels_conflict_where_one_of_them_differs(rows: list[tuple[int, tuple[bool, ...]]]) -> None:
    same, labels = [row[0] for row in rows], [row[1] for row in rows]
    found = find_conflicts(np.array(same, np.uint64), np.array(labels))
    assert [group.tolist() for group in found] == conflicts_one_by_one(same, labels)


def test_rows_without_a_label_are_left_out_of_inputs_and_targets() -> None:
    frame, _ = table(60)
    frame.loc[[3, 8], "label"] = None
    problem = ready(frame)
    assert problem.rows.tolist() == [row for row in range(60) if row not in (3, 8)]
    assert len(problem.inputs) == len(problem.targets) == 58
    assert problem.notices == ["2 of 60 rows have no label: not trained on, listed in set_aside.csv"]
    whole = ready(table(60)[0].drop([3, 8]))
    np.testing.assert_array_equal(problem.inputs, whole.inputs)


def test_conflicts_are_indices_of_the_source() -> None:
    frame, _ = table(60)
    frame.loc[0, "label"] = None
    again = frame.iloc[[10]].assign(id="again", label={"cat": "dog", "dog": "cat"}[frame["label"][10]])
    problem = ready(pd.concat([frame, again], ignore_index=True))
    assert [group.tolist() for group in problem.conflicts] == [[10, 60]]
    assert "2 rows have duplicates with different labels" in problem.notices[1]


def test_texts_that_differ_in_blanks_only_are_the_same() -> None:
    frame, _ = texts(60)
    again = frame.iloc[[4]].assign(review="  " + frame["review"][4].replace(" ", "\n "), label="other")
    problem = ready(pd.concat([frame, again] * 1, ignore_index=True), encoder="none")
    assert [group.tolist() for group in problem.conflicts] == [[4, 60]]


def test_rare_classes_are_noticed() -> None:
    frame, _ = table(60)
    frame.loc[:2, "label"] = "owl"
    assert ready(frame).notices == ["1 class has fewer than 5 rows, too few to judge their labels by: owl"]


@pytest.mark.parametrize("name", ["id", "ID", "uuid", "row_id"])
def test_a_column_that_is_called_id_names_the_rows_if_it_can(name: str) -> None:
    frame = table(60)[0].rename(columns={"id": name})
    assert ready(frame).ids.to_pylist() == frame[name].tolist()
    frame.loc[1, name] = frame.loc[0, name]
    assert ready(frame).ids is None
    with pytest.raises(ValueError, match="need an id that differs in every row"):
        ready(frame, id=name)


@pytest.mark.parametrize(
    "ids", [[[i] for i in range(60)], [{"a": i} for i in range(60)], [bytes([255, i]) for i in range(60)]]
)
def test_lists_and_bytes_are_no_ids(ids: list[Any]) -> None:
    frame = table(60)[0].assign(id=ids)
    assert ready(frame).ids is None
    with pytest.raises(ValueError, match="need an id that differs in every row"):
        ready(frame, id="id")


def test_an_id_column_that_is_set_is_not_learned_from() -> None:
    frame = table(60)[0].rename(columns={"id": "key"})
    assert "key" in ready(frame).features.describe()  # left out, as every value differs
    problem = ready(frame, id="key")
    assert problem.ids.to_pylist() == frame["key"].tolist()
    assert "key" not in problem.features.describe()


def test_a_mask_of_labels_in_an_npz_file_is_several_labels(tmp_path: Path) -> None:
    mask = np.random.default_rng(0).random((40, 3)) < 0.5
    np.savez(tmp_path / "data.npz", X=np.random.default_rng(1).normal(size=(40, 2)), y=mask.astype(int))
    problem = prepare(tmp_path / "data.npz", Settings())
    assert problem.labels.names == ["y0", "y1", "y2"]
    np.testing.assert_array_equal(problem.labels.given, mask)
    assert problem.inputs.shape == (40, 2)


def test_columns_named_like_what_is_written_are_columns_like_others() -> None:
    frame = table(60)[0].rename(columns={"height": "row", "width": "reason", "colour": "predicted_label"})
    np.testing.assert_array_equal(ready(frame).inputs, ready(table(60)[0]).inputs)


def test_a_column_of_lists_is_no_text() -> None:
    source = pd.DataFrame({"words": [["a", "b"]] * 30, "label": ["x", "y"] * 15})
    with pytest.raises(ValueError, match="need texts in column 'words', got list"):
        prepare(source, Settings(label=("label",), text="words"))


def test_only_image_files_of_equal_size_are_read_to_find_equal_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rockafellian.auditing.features.kinds import Images

    content = {"a": b"one", "b": b"one", "c": b"two", "d": b"larger"}
    for name, data in content.items():
        (tmp_path / name).write_bytes(data)
    opened: list[str] = []
    open_file = Path.open

    def counted(path: Path, mode: str) -> IO[Any]:
        opened.append(path.name)
        return open_file(path, mode)

    monkeypatch.setattr(Path, "open", counted)
    a, b, c, d = Images("file").fingerprints([tmp_path / name for name in content], torch.zeros(4, 1)).tolist()
    assert opened == ["a", "b", "c"]
    assert a == b
    assert len({a, c, d}) == 3
