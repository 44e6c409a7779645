"""When a run may end early: nothing changes any more."""

from __future__ import annotations

from collections.abc import Sequence

from rockafellian.training.history import History

#: How many epochs and re-weightings must pass without a change.
PATIENCE = 4
#: No change: this fraction of the rows newly removed or no longer, this rise of an accuracy, and this fall of the loss
#: as a fraction of the first epoch's.
MAX_CHANGED, MAX_RISE, MAX_FALL = 0.002, 0.002, 0.02


def has_settled(history: History, n_rows: int, *, reweights: bool) -> bool:
    """Return whether removed rows, accuracies and the loss have not changed for `PATIENCE` epochs.

    A function of the history alone, so that a resumed run ends where an uninterrupted one does.

    Args:
        history: of the run until now.
        n_rows: of the training data.
        reweights: whether rows are re-weighted; then `PATIENCE` re-weightings must have passed.
    """
    epochs, rounds = history.epochs, history.rounds[-PATIENCE:]
    if len(epochs) <= PATIENCE or (reweights and len(rounds) < PATIENCE):
        return False
    if any(made.n_changed > MAX_CHANGED * n_rows for made in rounds):
        return False
    losses = [-each.loss for each in epochs]
    rising = [_rises([getattr(each, name) for each in epochs], MAX_RISE) for name in ("accuracy", "valid_accuracy")]
    return not (any(rising) or _rises(losses, MAX_FALL * abs(losses[0])))


def _rises(values: Sequence[float | None], least: float) -> bool:
    """Return whether the last values go above all before by more than the least rise; unknown ones do not."""
    known = [value for value in values if value is not None]
    return len(known) == len(values) and max(known[-PATIENCE:]) > max(known[:-PATIENCE]) + least
