"""Bytes alive, on allocations that are known."""

import torch

from aon.lab.bench.live import LiveBytes

THOUSAND = 1000 * 4  # bytes of a thousand float32


def test_what_is_made_is_counted_until_it_is_freed():
    with LiveBytes() as live:
        a = torch.zeros(1000)
        b = a * 2
        assert live.now == 2 * THOUSAND
        del a
        assert live.now == THOUSAND
        c = torch.zeros(3000)
        del b, c
    assert live.now == 0
    assert live.peak == 4 * THOUSAND


def test_views_and_in_place_writes_are_not_new():
    with LiveBytes() as live:
        a = torch.zeros(1000)
        a.add_(1)
        view = a.view(10, 100)[2:]
        del a
        assert live.now == THOUSAND  # the view keeps all of it alive
        del view
    assert (live.now, live.peak) == (0, THOUSAND)


def test_known_tensors_count_once_and_until_freed():
    held = [torch.zeros(1000), torch.zeros(1000)]
    held.append(held[0].view(10, 100))
    live = LiveBytes(held)
    assert live.now == 2 * THOUSAND
    with live:
        del held[1]
        assert live.now == THOUSAND
        held[0].add(1)
    assert live.peak == 2 * THOUSAND


def test_backward_and_the_inside_of_a_function_are_seen():
    class Wasteful(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            torch.zeros(5000)
            return x * 1

        @staticmethod
        def backward(ctx, dx):
            torch.zeros(9000)
            return dx * 1

    x = torch.ones(1000, requires_grad=True)
    with LiveBytes() as forward:
        y = Wasteful.apply(x)
    assert forward.peak == 5 * THOUSAND
    dy = torch.ones(1000)
    with LiveBytes([x, y, dy]) as backward:
        y.backward(dy)
    assert backward.peak == (3 + 9) * THOUSAND


def test_empty_tensors_are_nothing():
    with LiveBytes() as live:
        torch.empty(0)
    assert live.peak == 0
