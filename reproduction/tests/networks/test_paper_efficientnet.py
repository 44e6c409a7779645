"""The features of images: what goes into the network, and what comes out."""

import pytest
import torch
from torch import nn

from rockafellian_reproduction.networks import efficientnet


def test_features_are_means_over_an_enlarged_and_normalized_image() -> None:
    class Seen(nn.Module):
        def extract_features(self, images: torch.Tensor) -> torch.Tensor:
            assert images.shape[1:] == (3, 112, 112)
            return images

    white = torch.full((3, 32, 32, 3), 255, dtype=torch.uint8)
    found = efficientnet.features(Seen(), white, 112, batch=2)
    assert torch.allclose(found, torch.ones(3, 3), atol=1e-4)


def test_missing_packages_are_named_as_pip_knows_them(monkeypatch) -> None:
    monkeypatch.setattr(efficientnet, "PACKAGES", ("no_such_package_at_all", "torch"))
    with pytest.raises(ImportError, match="need no-such-package-at-all and torch for these features; install them"):
        efficientnet.load()
