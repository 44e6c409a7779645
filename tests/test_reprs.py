"""What the main objects show of themselves in a terminal and in a notebook is short, and true."""

from html import unescape

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import rockafellian as rk
from rockafellian._internal.html import html_table
from rockafellian.training.history import N_SHOWN

RULES = st.builds(
    rk.RRM,
    gamma=st.floats(0.01, 10),
    mu=st.none() | st.floats(0.01, 1),
    spread=st.sampled_from(["kept", "argmin"]),
    penalty=st.sampled_from(["tv", "l1"]),
) | st.builds(
    rk.RRM,
    contamination=st.sampled_from([None, "auto"]) | st.floats(0, 0.99),
    mu=st.none() | st.floats(0.01, 1),
    crisp=st.booleans(),
)


@given(RULES)
def test_a_rule_is_what_it_shows(rule: rk.RRM) -> None:
    assert eval(repr(rule), {"RRM": rk.RRM}) == rule  # noqa: S307 - our own text


@pytest.mark.parametrize(
    ("rule", "shown"),
    [
        (rk.RRM(), "RRM()"),
        (rk.RRM(contamination="auto", mu=1), "RRM()"),
        (rk.RRM(crisp=True), "RRM(crisp=True)"),
        (rk.RRM(gamma=2), "RRM(gamma=2.0)"),
        (rk.RRM(gamma=2, mu=1), "RRM(gamma=2.0, mu=1.0)"),
        (rk.RRM(contamination=0.2, spread="argmin"), "RRM(contamination=0.2, spread='argmin')"),
    ],
)
def test_a_rule_shows_only_what_differs_from_the_defaults(rule: rk.RRM, shown: str) -> None:
    assert repr(rule) == shown


def seen() -> rk.SampleWeights:
    """Two of three rows were seen, one of them with another label predicted."""
    weights = rk.SampleWeights(3, rk.RRM(gamma=1.0))
    logits = torch.tensor([[2.0, 0.0], [0.0, 2.0]])
    weights.reduce(torch.tensor([0.1, 2.1]), torch.tensor([0, 1]), logits=logits, labels=torch.tensor([0, 0]))
    weights.step()
    return weights


def test_weights_and_predictions_show_their_counts() -> None:
    weights = seen()
    assert repr(weights) == "SampleWeights(3 rows, 1 removed, epoch 1, RRM(gamma=1.0))"
    assert repr(weights.predictions) == "Predictions(3 rows, 2 seen, 1 with another label predicted)"


def test_an_indexed_dataset_shows_what_it_wraps() -> None:
    assert repr(rk.Indexed([("a", 0), ("b", 1)])) == "Indexed(list of 2 rows)"


def test_a_history_shows_its_length_and_in_a_notebook_its_last_epochs() -> None:
    history = rk.History([rk.Epoch(n, 1 / n, None, None, None, 0.25, 0.1, 3.0) for n in range(1, 15)])
    assert repr(history) == "History(14 epochs, 0 re-weightings, last loss 0.07143)"
    assert repr(rk.History()) == "History(0 epochs, 0 re-weightings)"
    page = history._repr_html_()
    assert page.count("<tr>") == N_SHOWN + 1
    assert page.endswith(
        "<td>14</td><td>0.0714</td><td></td><td></td><td></td><td>0.25</td><td>0.1</td><td>3</td></tr></table>"
    )


def test_a_noise_rate_is_its_verdict_and_both_ends_in_a_notebook() -> None:
    found = rk.NoiseRate(rk.Estimate(0.1, 0.05, 0.15), rk.Estimate(0.2, 0.16, 0.25))
    page = unescape(found._repr_html_())
    assert page.startswith(f"<p>{found.verdict}</p>")
    assert page.count("<tr>") == 3
    for cell in ("floor", "10 %", "5.0 % to 15 %", "ceiling", "20 %", "16 % to 25 %"):
        assert f">{cell}</td>" in page


def test_a_table_for_a_notebook_escapes_text_and_leaves_unknown_cells_empty() -> None:
    page = html_table("<i>", ["<b>"], [["<script>"], [None], [float("nan")], [0.12345], [7]])
    assert page.startswith("<p>&lt;i&gt;</p>")
    assert "<b>" not in page
    assert "<script>" not in page
    assert page.endswith("<tr><td></td></tr><tr><td></td></tr><tr><td>0.123</td></tr><tr><td>7</td></tr></table>")
