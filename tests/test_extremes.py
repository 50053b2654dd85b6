"""Maps at the edges of arithmetic."""

import random

import pytest
import torch
from tests.extremes import faults
from torch import nn

import aon


@pytest.mark.parametrize("seed", range(4))
def test_weights_at_the_edges_of_arithmetic(seed):
    """1,000 each; `make soak` tries 100,000."""
    draw, tried = random.Random(seed), 0
    while tried < 1000:
        weights, found = faults(draw)
        assert found == []
        tried += weights


@pytest.mark.parametrize("order", [-1, 2.5, 10_000, True, "2", None, float("nan")])
def test_an_order_that_is_none_is_refused_by_name_and_the_model_is_unchanged(order):
    model = nn.Sequential(nn.Linear(3, 3))
    with pytest.raises((ValueError, TypeError), match="order"):
        aon.normalise(model, order)
    assert type(model[0]) is nn.Linear


def test_normalise_twice_is_refused_or_changes_nothing():
    model = aon.normalise(nn.Sequential(nn.Linear(4, 3)))
    x = torch.randn(2, 4)
    before = model.eval()(x)
    with pytest.raises(ValueError, match="normalised already; fold it first"):
        aon.normalise(model)
    assert torch.equal(model(x), before)


def test_fold_twice_is_fold_once():
    model = aon.fold(aon.normalise(nn.Sequential(nn.Linear(4, 3))).eval())
    weight = model[0].weight.clone()
    aon.fold(model)
    assert torch.equal(model[0].weight, weight)


def test_fold_while_training_gives_the_function_of_evaluation():
    model = aon.normalise(nn.Sequential(nn.Linear(4, 3)))
    x = torch.randn(2, 4)
    model.train()(x).sum().backward()
    model.eval()
    expected = model(x)
    model.train()
    assert torch.allclose(aon.fold(model)(x), expected, atol=1e-6)


def test_memory_and_threads_stay_flat_over_many_steps():
    """300 steps with evaluation, copies and saves; `make soak` does 20,000."""
    from tests.faults.long_use import steps

    figures = steps(300, warm_up=100)
    assert figures["growth_mib"] < 20
    assert figures["handles"] == 0
    assert figures["threads"] == 0
