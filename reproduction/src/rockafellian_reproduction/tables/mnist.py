"""Tables 3, 4 and 7: digits of MNIST with random labels, and under attack."""

from __future__ import annotations

from dataclasses import replace

from rockafellian_reproduction.tables.readings import BATCHES, ELR_BETA, FREED_WEIGHT, PADDING, REWEIGHTED_BY
from rockafellian_reproduction.tables.recipes import Recipe
from rockafellian_reproduction.tables.table import PENALTY, RATE, UPDATES, Scale, Table

_ATTACKED = Recipe(
    data="mnist-10",
    network="mnist10-valid",
    epochs=500,
    every=10,
    learning_rate=0.1 * 100 / 48_000,
    valid_share=0.2,
    gamma=2.0,
    mu=0.5,
    eps=1.0,
    losses_from="attacked",
    start="he",
    spread="one row",
    reweighted_by="clipped cce",
    attack_valid=False,
)
_ATTACKED_NETWORK = replace(
    _ATTACKED,
    epochs=40,
    every=1,
    spread="kept",
    learning_rate=0.03,
    unattacked=1,
    train_rows=15_000,
    test_rows=2000,
    tested_every=4,
)
_ATTACKED_READINGS = (
    RATE + " Perhaps Tables 4, 5 and 7 were not run so: after the first re-weighting Table 5 has 756 mislabeled rows "
    "removed, and trials with seed 0 at rates of 0.002 and 0.01 had learned nothing after as many steps times rate.",
    PENALTY,
    "Inputs are standardized; eps is in these units and nothing is clipped.",
    "Validation rows are mislabeled like the others and not attacked, as in the authors' script; figures are those of "
    "the best epoch. Those by attacked validation rows are recorded too: the printed figures of AT would fit these "
    "better, as they are good under strong attacks only.",
    "Network, its start, the clipping of probabilities and a freed weight that goes to one row are those of the "
    "authors' script. Batches are drawn from all rows, not as there shuffled within 1,024.",
    "The test attack uses the sign of the gradient, which the text leaves out. The authors' public code adds each eps "
    "to the one before, so the rows may mean 0, 0.1, 0.35, 0.85 and 1.85: shown as the summed eps.",
    UPDATES,
)

_ATTACKED_CHOSEN: dict[Scale, str] = {
    "network": "12,000 training rows and 3,000 for validation. Rate, first epoch without attack and where freed weight "
    "goes come from trials with seed 5 at 10 and 30 %, and from three cells with seed 0. Attacked from the "
    "start at a rate of 0.001 to 0.02, networks stayed near 10 % for five epochs or more; at 0.06 they fell back to "
    "10 %. At 0.1, started as torch does, A-RRM learned the label from the attack before mislabeled rows were removed. "
    "At such rates a single row with all freed weight decides the network: it fell to 10 %.",
}
_ATTACKED_POINTS = (PADDING, FREED_WEIGHT, BATCHES)
TABLE_3 = Table(
    number=3,
    title="MNIST-3",
    axes={
        "loss": ("elr", "cce", "mae", "mse"),
        "method": ("ERM", "RRM"),
        "contamination": (0.55, 0.6, 0.65),
    },
    scales={
        "paper": Recipe(
            data="mnist-3",
            network="mnist3",
            epochs=100,
            every=10,
            learning_rate=0.1 * 100 / 18_623,
            gamma=0.4,
            mu=0.5,
            tested_every=10,
        )
    },
    answers="paper",
    measures="last",
    minutes={"paper": 1},
    points=(ELR_BETA, REWEIGHTED_BY, BATCHES),
    shown=(
        {"elr-beta": "0.9"},
        {"elr-beta": "0.9", "reweighted-by": "cce"},
        {"batches": "script"},
        {"ours": "yes"},
        {"elr-beta": "0.9", "ours": "yes"},
    ),
    readings=(
        RATE,
        PENALTY,
        "Inputs are standardized by the mean and the standard deviation of the training images; batches of 100.",
        "MAE and MSE are sums over the classes: as means over three classes they stay below 2/3, and a threshold "
        "of c_min + 0.8 could remove nothing, against the printed gains.",
        "ELR has beta = 0.7 and lambda = 3, the values its authors use on CIFAR-10. Rows are re-weighted by their "
        "cross-entropy: with the regularizer, 66 % or more of them were removed in every round of a trial.",
        UPDATES,
    ),
)
TABLE_4 = Table(
    number=4,
    title="MNIST-10 under attack",
    axes={"method": ("AT", "A-RRM"), "contamination": (0.0, 0.05, 0.1, 0.2, 0.3)},
    scales={
        "paper": _ATTACKED,
        "network": _ATTACKED_NETWORK,
    },
    answers="network",
    measures="eps",
    minutes={"paper": 900, "network": 6},
    points=_ATTACKED_POINTS,
    readings=_ATTACKED_READINGS,
    chosen=_ATTACKED_CHOSEN,
    pairs=("AT", "A-RRM"),
)
TABLE_7 = Table(
    number=7,
    title="MNIST-10 under attack, labels changed by the kernel of Table 6",
    axes={"method": ("AT", "A-RRM"), "contamination": (0.0, 0.05, 0.1, 0.2, 0.3)},
    scales={
        "paper": replace(_ATTACKED, noise="kernel"),
        "network": replace(_ATTACKED_NETWORK, noise="kernel"),
    },
    answers="network",
    measures="eps",
    minutes={"paper": 900, "network": 6},
    points=_ATTACKED_POINTS,
    readings=_ATTACKED_READINGS,
    chosen=_ATTACKED_CHOSEN,
    pairs=("AT", "A-RRM"),
)
