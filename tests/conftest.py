import os

import torch
from browser import browser, tab
from hypothesis import settings

__all__ = ["browser", "tab"]

os.environ.setdefault("KERAS_BACKEND", "torch")  # before anything imports keras, whose default is tensorflow
torch.set_num_threads(1)  # two threads on a busy machine can be many times slower than one
settings.register_profile("same every time", derandomize=True, deadline=None)
settings.load_profile("same every time")
