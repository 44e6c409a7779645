"""`rk.audit`: the whole job in one call. Everything that needs an extra is imported when it is called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from rockafellian._internal.extras import missing
from rockafellian.method.noise_rate import NoiseRate
from rockafellian.training.history import History
from rockafellian.training.progress import Progress

if TYPE_CHECKING:
    import pandas
    import pyarrow as pa

    from rockafellian.auditing.data.labels import Classes
    from rockafellian.auditing.model.classifier import Classifier
    from rockafellian.auditing.model.problem import Problem
    from rockafellian.auditing.model.trust import Doubt
    from rockafellian.auditing.review.decisions import Decision
    from rockafellian.auditing.review.estimate import Reviewed
    from rockafellian.auditing.review.plan import Plan
    from rockafellian.weights.sample_weights import SampleWeights

NO_NOISE_RATE = "training ended before the noise rate was estimated, so nothing is flagged; raise --epochs"
#: How many label issues a notebook shows.
N_SHOWN = 10


@dataclass(frozen=True, eq=False, repr=False)
class Audited:
    """What `audit` found. Frames are of the kind that was passed, and rows keep their order."""

    problem: Problem
    model: Classifier  # trained; `model.save(folder)` keeps it
    history: History  # the epochs and the re-weightings
    weights: SampleWeights  # of the rows with a label
    losses: NDArray[np.float32]  # of the rows with a label, after training
    predicted: Classes  # of all rows, in the form of the given labels
    table: pa.Table  # the findings
    seconds: float
    folder: Path | None = None  # of the run, if one was written

    def __repr__(self) -> str:
        return f"Audited({len(self.problem.source)} rows, {self.flagged.sum()} label issues)"

    def _repr_html_(self) -> str:
        """The worst label issues, for notebooks."""
        worst = self.findings[self.flagged].sort_values("label_quality")[:N_SHOWN]
        return f"<p>{escape(repr(self))}</p>{worst.to_html(index=False, justify='left')}"

    @cached_property
    def flagged(self) -> NDArray[np.bool_]:
        """The rows that are label issues."""
        marked: NDArray[np.bool_] = self.table.column("is_label_issue").to_numpy()
        return marked

    @property
    def n_doubtful(self) -> int:
        """How many more rows have a label that the network contradicts, but are not flagged."""
        from rockafellian.auditing.model.claims import n_doubtful

        return n_doubtful(self.estimate, len(self.problem.rows), int(self.flagged.sum()))

    @cached_property
    def findings(self) -> pandas.DataFrame:
        """A line for each row of the data: given and predicted label, label quality, whether it is flagged, and why."""
        try:
            frame: pandas.DataFrame = self.table.to_pandas()
        except ModuleNotFoundError as error:
            raise missing("pandas for findings", "audit") from error
        return frame

    @property
    def cleaned(self) -> Any:
        """The data without the flagged rows."""
        source = self.problem.source
        return source.to_frame(source.table, ~self.flagged)

    @property
    def relabeled(self) -> Any:
        """The data with the predicted label in the flagged rows."""
        table, columns = self.relabeled_table(), self.problem.labels.columns
        return self.problem.source.to_frame(table, np.ones(len(table), bool), columns)

    def relabeled_table(self) -> pa.Table:
        """Return what `relabeled` shows, as a pyarrow table."""
        from rockafellian.auditing.data.labels import relabel

        return relabel(self.problem.source, self.problem.labels, self.flagged, self.predicted)

    @property
    def estimate(self) -> NoiseRate | None:
        """The estimated noise rate, floor and ceiling; None if the noise rate was set."""
        from rockafellian.auditing.model.claims import reported_estimate

        return reported_estimate(self.problem, self.weights.estimate)

    @cached_property
    def plan(self) -> Plan:
        """What to review first, and what to expect of it."""
        from rockafellian.auditing.review.plan import make_plan

        return make_plan(self.table, self.estimate, self.problem.settings.seed)

    @cached_property
    def doubts(self) -> list[Doubt]:
        """What speaks against the findings, each with a reason and what to do; nothing, if they can be trusted."""
        from rockafellian.auditing.model.trust import find_doubts

        return find_doubts(self.problem, self.estimate, self.flagged, self.history.epochs[-1].accuracy)

    @property
    def notices(self) -> list[str]:
        """What a user should know about the data and the training."""
        return self.problem.notices + ([] if self.weights.history else [NO_NOISE_RATE])

    def predict(self, data: Any) -> pandas.DataFrame:
        """Return the probability of each class for new rows, with the index of a pandas frame."""
        try:
            import pandas
        except ImportError as error:
            raise missing("pandas for predict", "audit") from error

        from rockafellian.auditing.data.reading import read

        probabilities = self.model.probabilities(read(data, labeled=False))
        index = data.index if isinstance(data, pandas.DataFrame) else None
        return pandas.DataFrame(probabilities, index=index, columns=self.model.classes)

    def review(self, *decisions: Any) -> Reviewed:
        """Return what decisions tell about the noise rate: files or frames as the page exports them, one a reviewer."""
        return self.plan.reviewed(self._read(decisions))

    def apply(self, *decisions: Any) -> Any:
        """Return the data with the decisions of one or more people; rows in dispute stay as they are."""
        from rockafellian.auditing.data.labels import relabel
        from rockafellian.auditing.review.decisions import correct

        source, labels = self.problem.source, self.problem.labels
        made = correct(labels, self._read(decisions))
        table = relabel(source, labels, made.relabeled, made.given)
        return source.to_frame(table, ~made.dropped, labels.columns)

    def retrain(self, *decisions: Any, progress: Progress = "auto") -> Audited:
        """Train again with the decisions of one or more people, whose rows are then never removed."""
        from rockafellian.auditing.commands.retrain import plan_review
        from rockafellian.auditing.commands.run import audit_prepared

        decided = self._read(decisions)
        review = plan_review(decided, self.plan.reviewed(decided), self.history)
        return audit_prepared(self.problem.with_review(review), progress=progress)

    def _read(self, decisions: Sequence[Any]) -> Mapping[int, Decision]:
        from rockafellian.auditing.review.decisions import read_decisions

        return read_decisions(decisions, self.table.column("id").to_pylist()).agreed

    def report(self, path: str | Path) -> None:
        """Write the page to review the label issues on."""
        from rockafellian.auditing.commands.outputs import write_report

        write_report(self, Path(path), key=str(path))


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
    encoding: str | None = None,
    crisp: bool | None = None,
    out: str | Path | None = None,
    progress: Progress = "auto",
) -> Audited:
    """Train on your data with RRM, and find the mislabeled rows; arguments are the options of `rockafellian audit`.

    Args:
        data: a frame of pandas, polars or pyarrow, a file, or a folder with one sub-folder per class.
        valid: validation data, never trained on.
        out: a folder for the files that the command writes.
    """
    _check_installed()
    from rockafellian.auditing.commands.run import audit_prepared, run
    from rockafellian.auditing.data.settings import Settings
    from rockafellian.auditing.model.problem import prepare

    chosen = (text, image, id, separator, contamination, loss, attack, eps, epochs, encoder, seed, device)
    settings = Settings(_names(label), *chosen, encoding, crisp)
    if out is None:
        return audit_prepared(prepare(data, settings, valid, progress), progress=progress)
    return run(data, settings, out=Path(out), valid=valid, progress=progress, say=lambda _: None)


def _check_installed() -> None:
    """Raise an error that names the extra unless everything that an audit imports is installed."""
    try:
        import rockafellian.auditing.commands.run  # noqa: F401
    except ModuleNotFoundError as error:
        raise missing(f"{str(error.name).partition('.')[0]} for rk.audit", "audit") from error


def _names(label: Any) -> tuple[Any, ...]:
    return (label,) if isinstance(label, str) or not isinstance(label, Iterable) else tuple(label)
