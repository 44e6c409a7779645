"""`rk.audit`: the whole job in one call. Everything that needs an extra is loaded when it is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rockafellian.method.noise_rate import Estimate
from rockafellian.training.history import History
from rockafellian.training.progress import Progress

if TYPE_CHECKING:
    import pandas

    from rockafellian.auditing.model.audit import Audit
    from rockafellian.auditing.model.classifier import Model


@dataclass(frozen=True, eq=False, repr=False)
class Audited:
    """What `audit` found. Frames are of the kind that was passed; rows keep their order."""

    inner: Audit
    folder: Path | None  # of the run, if one was written

    def __repr__(self) -> str:
        return f"Audited({len(self.inner.problem.source)} rows, {int(self.inner.flagged.sum())} labels look wrong)"

    @property
    def findings(self) -> pandas.DataFrame:
        """A row for each row of the data: given and predicted label, quality, whether it looks wrong, and why."""
        from rockafellian.auditing.report.outputs import findings_table

        frame: pandas.DataFrame = findings_table(self.inner).to_pandas()
        return frame

    @property
    def cleaned(self) -> Any:
        """The data without the rows that look wrong."""
        source = self.inner.problem.source
        return source.like_given(source.table, ~self.inner.flagged)

    @property
    def relabelled(self) -> Any:
        """The data with the suggested label in the rows that look wrong."""
        from rockafellian.auditing.data.labels import relabelled

        audit, problem = self.inner, self.inner.problem
        table = relabelled(problem.source, problem.labels, audit.to_relabel, audit.suggested)
        return problem.source.like_given(table, ~np.zeros(len(table), bool), problem.labels.columns)

    @property
    def estimate(self) -> Estimate | None:
        """The share of wrong labels; None if it was told."""
        return self.inner.estimate

    @property
    def history(self) -> History:
        """The epochs and the re-weightings."""
        return self.inner.history

    @property
    def model(self) -> Model:
        """The trained classifier; `save` and `load` keep it in a folder."""
        return self.inner.model

    def predict(self, data: Any) -> pandas.DataFrame:
        """The probability of each class for new rows, under the index of a frame that has one."""
        import pandas

        from rockafellian.auditing.data.reading import read

        said = self.model.probabilities(read(data, labelled=False))
        index = data.index if isinstance(data, pandas.DataFrame) else None
        return pandas.DataFrame(said, index=index, columns=self.model.classes)

    def report(self, path: str | Path) -> None:
        """Write the page to review the suspects on."""
        from rockafellian.auditing.report.outputs import write_report

        write_report(self.inner, Path(path))


def audit(
    data: Any,
    label: str | Sequence[str] = (),
    *,
    text: str | None = None,
    image: str | None = None,
    id: str | None = None,
    separator: str | None = None,
    valid: Any = None,
    contamination: float | Literal["auto"] = "auto",
    loss: str | None = None,
    attack: str | None = None,
    eps: float | None = None,
    epochs: int | None = None,
    encoder: str = "auto",
    seed: int = 0,
    device: str | None = None,
    out: str | Path | None = None,
    progress: Progress = "auto",
) -> Audited:
    """Train on a frame of pandas, polars or pyarrow, a file or a folder, and find the labels that look wrong.

    `label` names the column of labels, or several of 0 and 1. The rest is as in `rockafellian train`; with `out` the
    same folder is written, with its page, its corrected data and its model.
    """
    from rockafellian.auditing.commands.run import train
    from rockafellian.auditing.data.settings import Settings
    from rockafellian.auditing.model.audit import audit_problem
    from rockafellian.auditing.model.problem import prepare

    settings = Settings(
        label=(label,) if isinstance(label, str) else tuple(label),
        text=text,
        image=image,
        id=id,
        separator=separator,
        contamination=contamination,
        loss=loss,
        attack=attack,
        eps=eps,
        epochs=epochs,
        encoder=encoder,
        seed=seed,
        device=device,
    )
    if out is None:
        return Audited(audit_problem(prepare(data, settings, valid, progress), progress=progress), None)
    folder, found = train(data, settings, out=Path(out), valid=valid, progress=progress, say=lambda _: None)
    return Audited(found, folder)
