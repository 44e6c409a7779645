from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rockafellian.contamination import Noisy, feature_dependent, flip, one_sided, transition, uniform
from rockafellian_reproduction.tables.kernel import KERNEL

OTHERS = (np.ones((4, 4)) - np.eye(4)) / 3


def features_of(n: int, width: int = 3) -> np.ndarray:
    return np.random.default_rng(5).normal(size=(n, width))


class Noise(NamedTuple):
    n_classes: int
    apply: Callable[..., Noisy]  # (labels, contamination, seed)


NOISES = {
    "uniform": Noise(4, lambda y, c, seed=0: uniform(y, c, n_classes=4, seed=seed)),
    "transition": Noise(4, lambda y, c, seed=0: transition(y, OTHERS, c, seed=seed)),
    "flip": Noise(2, lambda y, c, seed=0: flip(y, c, seed=seed)),
    "one_sided": Noise(2, lambda y, c, seed=0: one_sided(y, c, seed=seed)),
    "feature_dependent": Noise(4, lambda y, c, seed=0: feature_dependent(y, features_of(len(y)), c, seed=seed)),
}
EXACT = [name for name in NOISES if name != "one_sided"]
rates = st.floats(0, 1, exclude_max=True)
labels_of = {k: st.lists(st.integers(0, k - 1), min_size=1, max_size=60) for k in (2, 4)}


@given(st.data(), st.sampled_from(EXACT), rates, st.integers(0, 9))
def test_exactly_the_promised_rows_get_another_class_and_the_mask_has_them(data, name, contamination, seed) -> None:
    k, apply = NOISES[name]
    true = [0, 1, *data.draw(labels_of[k])]
    noisy = apply(true, contamination, seed)
    assert noisy.labels.dtype == torch.int64
    assert noisy.mask.dtype == torch.bool
    assert torch.equal(noisy.mask, noisy.labels != torch.tensor(true))
    assert int(noisy.mask.sum()) == round(contamination * len(true))
    assert 0 <= noisy.labels.min() <= noisy.labels.max() < k


@given(labels_of[2], rates, st.integers(0, 9))
def test_one_sided_mislabels_negatives_up_to_the_contamination_or_says_there_are_too_few(true, rate, seed) -> None:
    true = torch.tensor([1, *true])
    negatives, positives = (int((true == label).sum()) for label in (0, 1))
    if round(rate / (1 - rate) * positives) > negatives:
        with pytest.raises(ValueError, match=f"negatives to mislabel .* of the positives, got {negatives}; lower"):
            one_sided(true, rate, seed=seed)
        rate *= negatives / len(true)
    labels, mask = one_sided(true, rate, seed=seed)
    assert torch.equal(mask, labels != true)
    assert true[mask].eq(0).all()
    assert labels[mask].eq(1).all()
    given_positive = labels == 1
    assert abs(float(mask.sum() / given_positive.sum()) - rate) <= 1 / int(given_positive.sum())


@pytest.mark.parametrize("name", NOISES)
def test_no_contamination_changes_nothing(name: str) -> None:
    k, apply = NOISES[name]
    true = torch.arange(40) % k
    assert torch.equal(apply(true, 0.0).labels, true)
    assert not apply(true, 0.0).mask.any()


@pytest.mark.parametrize("name", NOISES)
def test_the_seed_alone_decides(name: str) -> None:
    k, apply = NOISES[name]
    true = torch.arange(200) % k
    torch.manual_seed(1)
    first = apply(true, 0.3, 7)
    torch.manual_seed(2)
    assert torch.equal(apply(true, 0.3, 7).labels, first.labels)
    assert not torch.equal(apply(true, 0.3, 8).mask, first.mask)


@pytest.mark.parametrize("name", NOISES)
def test_every_kind_of_array_gets_the_same_labels_and_stays_as_it_was(name: str) -> None:
    k, apply = NOISES[name]
    true = [i % k for i in range(40)]
    expected = apply(true, 0.3).labels
    assert true == [i % k for i in range(40)]
    read_only = np.array(true)
    read_only.flags.writeable = False
    arrays = [torch.tensor(true), np.array(true), torch.tensor(true, dtype=torch.uint8), np.array(true, np.int16)]
    for array in [*arrays, read_only, *([np.array(true, bool)] if k == 2 else [])]:
        noisy = apply(array, 0.3)
        assert torch.equal(noisy.labels, expected)
        noisy.labels.fill_(-1)  # nor does the answer share memory with the question
        assert array.tolist() == true


@pytest.mark.parametrize("name", NOISES)
def test_rows_are_drawn_from_the_whole_data_set_alike(name: str) -> None:
    k, apply = NOISES[name]
    true = np.random.default_rng(0).integers(0, k, 20_000)
    wrong = apply(true, 0.4).mask.reshape(10, -1).sum(1).double()
    assert (wrong / wrong.mean() - 1).abs().max() < 0.2


def test_uniform_noise_hits_each_other_class_alike() -> None:
    true = torch.arange(20_000) % 10
    labels, mask = uniform(true, 0.5)
    counts = torch.zeros(10, 10).index_put_((true[mask], labels[mask]), torch.ones(10_000), accumulate=True)
    cells = counts[~torch.eye(10, dtype=torch.bool)].double()
    expected = 10_000 / 90
    assert ((cells - expected) ** 2 / expected).sum() < 89 + 5 * (2 * 89) ** 0.5


def test_uniform_noise_knows_classes_that_no_row_has() -> None:
    assert uniform([0] * 90, 0.99, n_classes=4).labels.unique().tolist() == [0, 1, 2, 3]
    assert uniform([0] * 90, 0.5).labels.unique().tolist() == [0, 1]


def test_each_row_of_table_6_is_a_whole_number_of_confusions_and_none_is_right() -> None:
    kernel = np.array(KERNEL)
    assert kernel.shape == (10, 10)
    assert kernel.min() == 0
    assert (kernel.diagonal() == 0).all()
    assert kernel.sum(1) == pytest.approx(np.ones(10), abs=1e-3)
    for row in kernel:
        counts = (np.rint(row * total) for total in range(1, 100))
        assert any(abs(row - count / count.sum()).max() < 1e-4 for count in counts if count.any())


@pytest.mark.parametrize("contamination", [None, 0.6])
def test_labels_go_where_table_6_sends_them(contamination: float | None) -> None:
    true = np.arange(40_000) % 10
    labels, mask = transition(true, KERNEL, contamination)
    assert mask.double().mean() == (1 if contamination is None else contamination)
    counts = np.zeros((10, 10))
    np.add.at(counts, (true[mask], labels[mask].numpy()), 1)
    kernel = np.array(KERNEL)
    assert (counts[kernel == 0] == 0).all()
    assert counts / counts.sum(1, keepdims=True) == pytest.approx(kernel, abs=0.05)


@pytest.mark.parametrize(("stays", "contamination"), [(1.0, None), (0.75, None), (0.75, 0.4), (0.0, None)])
def test_rows_that_drew_their_own_label_are_not_mislabeled(stays: float, contamination: float | None) -> None:
    true = torch.arange(20_000) % 4
    labels, mask = transition(true, stays * np.eye(4) + (1 - stays) * OTHERS, contamination)
    assert torch.equal(mask, labels != true)
    drawn = 1 if contamination is None else contamination
    assert float(mask.double().mean()) == pytest.approx((1 - stays) * drawn, abs=0.02 * (0 < stays < 1))


def two_gaussians() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    true = random.integers(0, 2, 4000)
    features = random.normal(size=(4000, 3)) + np.outer(2 * true - 1, [1.0, 0.0, 0.0])
    return true, features, (2 * true - 1) * features[:, 0]  # the boundary is where the first feature is 0


def test_the_smaller_the_true_margin_and_the_greater_the_sharpness_the_likelier_the_error() -> None:
    true, features, margin = two_gaussians()
    gaps = []
    for sharpness in (0.0, 1.0, 5.0, 50.0):
        wrong = feature_dependent(true, features, 0.2, sharpness=sharpness).mask.numpy()
        gaps.append(margin[~wrong].mean() - margin[wrong].mean())
    assert gaps == sorted(gaps)
    assert abs(gaps[0]) < 0.1
    assert gaps[2] > 1


def test_the_chance_of_an_error_grows_by_e_per_sharpness_of_margin() -> None:
    true = np.arange(40_000) % 2
    contrary = np.arange(40_000) % 8 < 2  # a quarter of the rows looks like the other class
    features = np.where(contrary, 1 - true, true)[:, None]
    wrong = feature_dependent(true, features, 0.05, sharpness=1.0).mask.numpy()
    ratio = wrong[contrary].mean() / wrong[~contrary].mean()
    assert np.log(ratio) == pytest.approx(1.0, abs=0.1)  # the line says 3/4 to 1/4: margins of 1/2 and -1/2


def test_of_three_classes_on_a_line_a_neighbour_is_taken() -> None:
    random = np.random.default_rng(0)
    true = random.integers(0, 3, 6000)
    labels, mask = feature_dependent(true, true[:, None] + 0.3 * random.normal(size=(6000, 1)), 0.3)
    step = (labels - torch.tensor(true))[mask].abs()
    assert (step == 1).double().mean() > 0.99
    assert labels[mask].bincount(minlength=3).min() > 0


def test_features_may_be_pictures_tensors_of_any_scale_or_say_nothing() -> None:
    true, features = np.arange(60) % 3, features_of(60, width=16)
    expected = feature_dependent(true, features, 0.3)
    pictures = torch.tensor(features.reshape(60, 1, 4, 4), requires_grad=True)
    silent = np.hstack([features, np.full((60, 2), 0.1)])
    for same in (pictures, features.tolist(), features / 1024, silent):
        assert torch.equal(feature_dependent(true, same, 0.3).labels, expected.labels)
    for constant in (np.zeros((60, 2)), np.full((60, 2), 0.1)):
        assert int(feature_dependent(true, constant, 0.3).mask.sum()) == 18


Y = [0, 1, 1, 0]


def test_no_row_looks_like_a_class_that_has_none() -> None:
    true, features, _ = two_gaussians()
    assert feature_dependent(2 * true, features, 0.3).labels.unique().tolist() == [0, 2]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        *[
            (lambda apply=noise.apply, labels=labels, c=c: apply(labels, c), message)
            for noise in NOISES.values()
            for labels, c, message in [
                ([0.0, 1.0], 0.1, r"whole number per row.*got shape \(2,\) of float64; number the classes"),
                ([[0, 1]], 0.1, r"whole number per row.*got shape \(1, 2\)"),
                ([], 0.1, r"whole number per row.*got shape \(0,\)"),
                ([-1, 0, 1], 0.1, "labels from 0 to .* got -1 to 1"),
                (Y, 1.0, r"contamination in \[0, 1\).*got 1.0"),
                (Y, -0.1, r"contamination in \[0, 1\).*got -0.1"),
                (Y, float("nan"), r"contamination in \[0, 1\).*got nan"),
            ]
        ],
        (lambda: uniform([0, 2], 0.1, n_classes=2), "labels from 0 to 1 .*got 0 to 2"),
        (lambda: uniform([0, 0], 0.1, n_classes=1), "at least 2 classes"),
        (lambda: flip([0, 1, 2], 0.1), "labels from 0 to 1 .*got 0 to 2"),
        (lambda: one_sided([0, 1, 2], 0.1), "labels from 0 to 1 .*got 0 to 2"),
        (lambda: one_sided([0, 1, 1, 1], 0.5), "need 3 negatives .* 50% of the positives, got 1; lower"),
        (lambda: one_sided([0, 0], 0.1), "at least one positive"),
        (lambda: feature_dependent([1, 1], [[0.0], [1.0]], 0.1), "two classes, got only label 1"),
        (lambda: feature_dependent([0, 1], [[0.0], [float("nan")]], 0.1), "need finite features"),
        (lambda: feature_dependent([0, 1], [[0.0], [1.0]], 0.1, sharpness=-1.0), "sharpness >= 0, got -1.0"),
        (lambda: transition([0, 4], OTHERS), "labels from 0 to 3 .*got 0 to 4"),
        (lambda: transition(Y, OTHERS[:3]), r"square kernel.*got shape \(3, 4\)"),
        (lambda: transition(Y, OTHERS[0]), r"square kernel.*got shape \(4,\)"),
        (lambda: transition(Y, 2 * OTHERS), "rows sum to 1, got sums from 2 to 2"),
        (lambda: transition(Y, [[1.5, -0.5], [0.5, 0.5]]), "kernel of probabilities"),
        (lambda: transition(Y, [[float("nan"), 1.0], [0.5, 0.5]]), "kernel of probabilities"),
        (lambda: feature_dependent(Y, features_of(3), 0.1), r"for each of 4 labels; got shape \(3, 3\)"),
        (lambda: feature_dependent(Y, [1.0, 2.0, 3.0, 4.0], 0.1), r"for each of 4 labels; got shape \(4,\)"),
    ],
)
def test_bad_input_is_answered_with_what_was_wanted_and_what_came(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
