"""Warnings of our own code are errors in tests, those of other packages are shown."""

import warnings

import pytest

OLD = """
import warnings

def old():
    warnings.warn("old() is deprecated", DeprecationWarning, stacklevel=2)
"""


def use_from(module: str) -> None:
    """Call something deprecated from a line of this module."""
    library: dict[str, object] = {"__name__": "somebody.library"}
    exec(OLD, library)
    exec("old()", {"__name__": module, "old": library["old"]})


@pytest.mark.parametrize(
    "module",
    [
        "rockafellian",
        "rockafellian.weights.sample_weights",
        "rockafellian_reproduction.tables",
        __name__,
        "plain_loop",
        "rivals.page",
    ],
)
def test_a_deprecated_use_in_our_code_is_an_error(module: str) -> None:
    with pytest.raises(DeprecationWarning, match="old\\(\\) is deprecated"):
        use_from(module)


def test_a_deprecated_use_in_other_packages_is_shown() -> None:
    with warnings.catch_warnings(record=True) as shown:
        use_from("peft.tuners.tuners_utils")
    assert [str(warning.message) for warning in shown] == ["old() is deprecated"]


def test_a_careless_number_in_our_code_is_an_error() -> None:
    with pytest.raises(RuntimeWarning, match="divide by zero"):
        exec("import numpy; numpy.float64(1) / 0", {"__name__": "rockafellian.method.reweight"})
