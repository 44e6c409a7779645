"""`make demo`: RRM on the toy problem in its four forms, and a picture of what becomes of clean and flipped rows."""

import json
from itertools import count
from pathlib import Path

import matplotlib
import torch
from torch import Tensor

import rockafellian as rk
from toy import make_toy, precision_and_recall, train

RULES = {
    f"{mode} {value}, {spread}": rk.RRM(**{mode: value}, spread=spread)
    for mode, value in (("gamma", 1.0), ("contamination", 0.4))
    for spread in ("argmin", "kept")
}


def draw(values: dict[str, Tensor], wrong: Tensor, path: Path) -> None:
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(2, 2, figsize=(9, 6), sharex=True, sharey=True, layout="constrained")
    for panel, (name, weights) in zip(panels.flat, values.items(), strict=True):
        for label, rows, color in (("clean", ~wrong, "tab:blue"), ("flipped", wrong, "tab:red")):
            low, middle, high = weights[:, rows].quantile(torch.tensor([0.05, 0.5, 0.95]), dim=1)
            panel.plot(middle, color=color, label=f"{label} rows")
            panel.fill_between(range(len(low)), low, high, color=color, alpha=0.2)
        panel.set_title(name)
    panels[0, 0].legend()
    figure.supxlabel("round")
    figure.supylabel("weight: median, and from the 5th to the 95th percentile")
    figure.savefig(path, dpi=120)


def main() -> None:
    toy = make_toy()
    folder = next(path for i in count(1) if not (path := Path("runs") / f"demo-{i}").exists())
    folder.mkdir(parents=True)
    values, summary = {}, {}
    for name, rule in RULES.items():
        weights, values[name] = train(toy, rule)
        precision, recall = precision_and_recall(weights.removed, toy.wrong)
        summary[name] = {"removed": int(weights.removed.sum()), "precision": precision, "recall": recall}
        print(
            f"{name:>26}: of the removed rows {precision:.1%} are flipped, of the flipped rows {recall:.1%} are removed"
        )
    draw(values, toy.wrong, folder / "weights.png")
    (folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    (folder / "DONE").touch()
    print(f"wrote {folder / 'weights.png'}")


if __name__ == "__main__":
    main()
