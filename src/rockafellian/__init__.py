"""Train classifiers on data with wrong labels, by the Rockafellian Relaxation Method."""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.2.0"

if TYPE_CHECKING:
    from rockafellian.public import *  # noqa: F403
else:  # commands that need no torch, or fail early, should not wait for it

    def __getattr__(name):
        """Return a public name, and from then on all of them as attributes."""
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module 'rockafellian' has no attribute {name!r}")
        public = import_module("rockafellian.public")
        globals().update({each: getattr(public, each) for each in ("__all__", *public.__all__)})
        try:
            return globals()[name]
        except KeyError:
            raise AttributeError(f"module 'rockafellian' has no attribute {name!r}") from None

    def __dir__():
        return sorted({*globals(), *import_module("rockafellian.public").__all__})
