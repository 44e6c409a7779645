from xml.etree import ElementTree

import pytest
from tiny import comparison, full_records, report

from rockafellian_reproduction.pages import page
from rockafellian_reproduction.pages.compare import NUMBERS, Comparison
from rockafellian_reproduction.pages.plots import draw


@pytest.mark.parametrize(
    ("number", "panels"),
    [
        (1, ["GCE", "CCE", "MAE", "MSE"]),
        (2, ["MSE"]),
        (4, ["contamination 0 %", "contamination 30 %"]),
        (5, ["mislabeled rows", "clean rows", "u N: about 0"]),
        (8, ["contamination 1 %", "recall", "precision", "ERM", "RRM"]),
        (10, ["contamination 75 %", "epoch", "ERM", "RRM"]),
    ],
)
def test_a_plot_is_well_formed_and_its_text_is_text(number: int, panels: list[str]) -> None:
    plot = draw(comparison(number))
    assert plot is not None
    words = [part.text for part in ElementTree.fromstring(plot.svg).iter() if part.tag.endswith("text")]
    assert set(panels) <= set(words)


def test_a_plot_shows_only_what_is_recorded() -> None:
    some = [made for made in full_records(3) if made["cell"]["loss"] == "cce"]
    plot = draw(Comparison(3, "paper", some))
    assert plot is not None
    assert "CCE + RRM, paper" in plot.svg
    assert "MSE" not in plot.svg


@pytest.mark.parametrize("number", NUMBERS)
def test_a_plot_without_a_figure_is_left_out(number: int) -> None:
    lost = [
        {**made, "results": {}, "tested": {}, "bins": [], "rounds": [], "diverged": "inf"}
        for made in comparison(number, 1).records
    ]
    empty = Comparison(number, "paper", lost)
    assert draw(empty) is None
    assert "<svg" not in page.html(report(empty))
