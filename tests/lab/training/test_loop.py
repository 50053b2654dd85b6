"""Training and evaluation loops."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from aon.lab.training.loop import Parts, Totals, autocast, eval_steps, train_steps


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


def batches():
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(4, 3, 2, 2, generator=generator), torch.randint(3, (4,), generator=generator)) for _ in range(5)
    ]


def parts(model, **changes):
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    plain = {"model": model, "forward": model, "optimiser": optimiser}
    return Parts(**{**plain, "scaler": torch.amp.GradScaler("cpu", enabled=False), **changes})


def test_training_is_the_plain_loop():
    ours, plain = network(), network()
    totals = Totals.zero(torch.device("cpu"))
    steps = sum(1 for _ in train_steps(parts(ours), batches(), totals))
    optimiser = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
    losses, correct = [], 0
    for x, y in batches():
        logits = plain(x)
        loss = cross_entropy(logits, y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
        correct += (logits.argmax(1) == y).sum().item()
    assert steps == 5
    assert all(torch.equal(a, b) for a, b in zip(ours.state_dict().values(), plain.state_dict().values(), strict=True))
    loss, accuracy, penalty = totals.means()
    assert abs(loss - sum(losses) / 5) < 1e-6
    assert (accuracy, penalty) == (100 * correct / 20, 0.0)


def test_a_penalty_is_added_to_the_loss_and_reported_apart():
    model = network()
    layer = model[1]
    before = layer.weight.detach().clone()
    totals = Totals.zero(torch.device("cpu"))
    penalty = lambda: 1000 * layer.weight.square().sum()  # noqa: E731
    list(train_steps(parts(model, penalty=penalty), batches()[:1], totals))
    assert abs(totals.means()[2] - 1000 * before.square().sum().item()) < 1e-2
    assert totals.means()[0] < 10
    assert torch.allclose(layer.weight, before - 0.1 * 2000 * before, rtol=0.1)


def test_evaluation_changes_nothing_but_the_mode():
    model = network()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    totals = Totals.zero(torch.device("cpu"))
    list(eval_steps(parts(model), batches(), totals))
    assert not model.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    assert totals.images == 20


def test_precisions():
    x = torch.randn(4, 4)
    for precision, dtype in (("float32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)):
        with autocast(precision, torch.device("cpu")):
            assert (x @ x).dtype == dtype


def test_fp16_scales_the_loss_and_skips_steps_that_overflow():
    model = network()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**100)  # too large: every gradient overflows
    before = model[1].weight.detach().clone()
    list(train_steps(parts(model, scaler=scaler, precision="fp16"), batches()[:1], Totals.zero(torch.device("cpu"))))
    assert torch.equal(model[1].weight, before)
    assert scaler.get_scale() == 2.0**99
