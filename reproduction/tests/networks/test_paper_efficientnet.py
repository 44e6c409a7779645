"""The features of images: what goes into the network, and what comes out."""

import pytest
import torch
from torch import nn

from rockafellian_reproduction.networks import efficientnet
from rockafellian_reproduction.networks.features import principal_components


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


def test_principal_components_keep_distances_and_are_ordered_by_variance() -> None:
    vectors = torch.randn(50, 6, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 5, 2, 4, 3, 6]) + 7
    found = principal_components(vectors, 6, fitted=50)
    centered = vectors - vectors.mean(0)
    torch.testing.assert_close(found @ found.T, centered @ centered.T, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(found.mean(0), torch.zeros(6), rtol=0, atol=1e-4)
    assert found.std(0).tolist() == sorted(found.std(0).tolist(), reverse=True)
    assert torch.equal(principal_components(vectors, 2, fitted=50), found[:, :2])


def test_rows_that_are_not_fitted_do_not_change_the_components() -> None:
    vectors = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    outlier = torch.cat([vectors, torch.full((1, 4), 1e3)])
    assert torch.equal(principal_components(outlier, 2, fitted=50)[:50], principal_components(vectors, 2, fitted=50))
