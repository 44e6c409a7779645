import torch
from torch import nn

from rockafellian.losses import ELR, cce, for_rows
from rockafellian_reproduction.training.batches import ShuffleBuffer, SmallerLastBatch


def test_a_buffer_gives_each_row_once_and_none_before_it_was_filled_in() -> None:
    torch.manual_seed(0)
    drawn = list(ShuffleBuffer(5000, size=100))
    assert sorted(drawn) == list(range(5000))
    assert all(row < place + 100 for place, row in enumerate(drawn))
    assert max(place - row for place, row in enumerate(drawn)) > 300  # some wait in the buffer for long
    torch.manual_seed(0)
    assert list(ShuffleBuffer(5000, size=100)) == drawn
    assert list(ShuffleBuffer(5000, size=100)) != drawn


def test_a_buffer_that_holds_all_rows_draws_them_evenly() -> None:
    torch.manual_seed(0)
    first = torch.tensor([next(iter(ShuffleBuffer(4, size=10))) for _ in range(4000)])
    counts = first.bincount(minlength=4)
    assert ((counts - 1000).abs() < 150).all()


def test_a_smaller_batch_counts_in_proportion_in_training_only() -> None:
    logits, labels = torch.randn(25, 3), torch.arange(25) % 3
    loss = SmallerLastBatch(cce, 100)
    torch.testing.assert_close(loss(logits, labels), cce(logits, labels) / 4)
    torch.testing.assert_close(SmallerLastBatch(cce, 20)(logits, labels), cce(logits, labels))
    torch.testing.assert_close(loss.eval()(logits, labels), cce(logits, labels))


def test_a_loss_that_remembers_rows_still_gets_their_indices() -> None:
    logits, labels, index = torch.randn(5, 3), torch.arange(5) % 3, torch.arange(5)
    torch.manual_seed(0)
    plain, wrapped = ELR(5, 3), SmallerLastBatch(ELR(5, 3), 10)
    assert isinstance(wrapped, nn.Module)
    expected = for_rows(plain, index)(logits, labels) / 2
    torch.testing.assert_close(for_rows(wrapped, index)(logits, labels), expected)
