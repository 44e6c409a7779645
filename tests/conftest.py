import torch
from browser import browser, tab
from hypothesis import settings

__all__ = ["browser", "tab"]

torch.set_num_threads(1)  # two threads on a busy machine can be many times slower than one
settings.register_profile("same every time", derandomize=True, deadline=None)
settings.load_profile("same every time")
