"""The reason column: one line of text about a row."""

from __future__ import annotations

import math

from rockafellian._internal.arrays import UNKNOWN


def reason(
    names: list[str] | None,
    given: int,
    predicted: int,
    probability: float,
    quality: float,
    removed: bool,
    loss: float,
    margin: float,
    last_removed: int,
) -> str:
    """What is known about the label of one row, and what the method did with the row."""
    if math.isnan(quality):
        seen = predicted != UNKNOWN or not math.isnan(loss)
        known = "seen in training, but its logits were missing or NaN" if seen else "not seen in training"
        return f"{known}; removed in round {last_removed}" if removed else known
    if predicted == UNKNOWN:
        known = f"label quality {quality:.2g}" if math.isnan(loss) else f"average loss {loss:.3g}"
    else:
        known = _prediction(names, given, predicted, probability)
        known += "" if math.isnan(margin) else f"; average margin {margin:.1f}"
    return f"{known}; {_outcome(removed, given == predicted != UNKNOWN, last_removed)}"


def _prediction(names: list[str] | None, given: int, predicted: int, probability: float) -> str:
    label, guess = (names[each] if names else f"class {each}" for each in (given, predicted))
    chance = "" if math.isnan(probability) else f" ({100 * probability:.0f} %)"
    if given == UNKNOWN:
        return f"predicted {guess}{chance}"
    return f"predicted {guess}{chance}, " + ("as labeled" if given == predicted else f"labeled {label}")


def _outcome(removed: bool, agrees: bool, last_removed: int) -> str:
    if removed:
        done = f"removed in round {last_removed}" if last_removed else "flagged"
        return f"{done}, but no other label is predicted" if agrees else done
    return f"kept, last removed in round {last_removed}" if last_removed else "kept"
