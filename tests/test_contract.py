"""One contract for every weight map on every layer: what users of normalised layers may rely on."""

import copy
import io
import itertools
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.optim.swa_utils import AveragedModel
from torch.utils.checkpoint import checkpoint

import aon
from aon.layers import NormalisedLayer
from aon.maps import ONI, CentredWeightNorm, Polar, WeightNorm


class Kind(NamedTuple):
    """A layer as a user makes it, and the shape of an input."""

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    include: str | None = None


LAYERS = {
    "linear_wide": Kind(lambda: nn.Linear(7, 4), (3, 7)),
    "linear_tall": Kind(lambda: nn.Linear(4, 7, bias=False), (2, 3, 4)),
    "linear_square": Kind(lambda: nn.Linear(5, 5), (5,)),
    "conv1d": Kind(lambda: nn.Conv1d(3, 4, 3), (2, 3, 6)),
    "conv2d": Kind(lambda: nn.Conv2d(3, 4, 3, padding=1), (2, 3, 5, 5)),
    "conv2d_tall": Kind(lambda: nn.Conv2d(3, 8, 1), (2, 3, 4, 4)),
    "conv2d_strided": Kind(lambda: nn.Conv2d(3, 4, 3, stride=2, bias=False), (2, 3, 7, 6)),
    "conv2d_dilated": Kind(lambda: nn.Conv2d(3, 4, (3, 1), dilation=(2, 1), padding="same"), (2, 3, 6, 5)),
    "conv2d_reflect": Kind(lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), (2, 3, 5, 5)),
    "conv2d_unbatched": Kind(lambda: nn.Conv2d(3, 4, 3), (3, 5, 5)),
    "conv3d": Kind(lambda: nn.Conv3d(2, 4, 2, padding_mode="circular", padding=1), (2, 2, 3, 3, 3)),
    "grouped": Kind(lambda: nn.Conv2d(4, 6, 3, groups=2), (2, 4, 5, 5)),
    "depthwise": Kind(lambda: nn.Conv2d(4, 4, 3, groups=4), (2, 4, 5, 5), include=""),
    "transposed1d": Kind(lambda: nn.ConvTranspose1d(3, 4, 3, stride=2, output_padding=1), (2, 3, 5)),
    "transposed2d": Kind(lambda: nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, bias=False), (2, 3, 4, 4)),
    "transposed3d": Kind(lambda: nn.ConvTranspose3d(2, 3, 2), (1, 2, 3, 2, 3)),
    "transposed_grouped": Kind(lambda: nn.ConvTranspose2d(4, 6, 3, groups=2, dilation=2), (2, 4, 4, 4)),
}
MAPS: dict[str, dict[str, Any]] = {
    "aon0": {"order": 0},
    "aon1": {"order": 1},
    "aon2": {"order": 2},
    "aon4": {"order": 4},
    "aon2_mean": {"centre": "mean"},
    "aon2_frobenius": {"scale": "frobenius", "gain_init": "match"},
    "aon3_unscaled": {"order": 3, "scale": None, "gain": False},
    "aon2_prescale": {"prescale": True, "n_power_iterations": 3},
    "wn": {"map": WeightNorm()},
    "cwn": {"map": CentredWeightNorm(), "gain": False},
    "polar": {"map": Polar()},
    "oni": {"map": ONI(iterations=4, centre=True), "gain_init": "match"},
}
FEW_MAPS = ("aon0", "aon2", "aon2_prescale", "cwn", "polar")
FEW_LAYERS = ("linear_wide", "linear_tall", "conv2d", "grouped", "transposed2d")
WITH_STATE = tuple(name for name in MAPS if name.startswith("aon"))

each_map = pytest.mark.parametrize("options", MAPS.values(), ids=MAPS)
each_layer = pytest.mark.parametrize("kind", LAYERS.values(), ids=LAYERS)
some_maps = pytest.mark.parametrize("options", [MAPS[name] for name in FEW_MAPS], ids=FEW_MAPS)
some_layers = pytest.mark.parametrize("kind", [LAYERS[name] for name in FEW_LAYERS], ids=FEW_LAYERS)
aon_maps = pytest.mark.parametrize("options", [MAPS[name] for name in WITH_STATE], ids=WITH_STATE)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def normalised(kind: Kind, options: dict[str, Any], dtype: torch.dtype = torch.float32) -> Any:
    """The layer as a user makes it, normalised; gains moved off their start, so that they show."""
    layer = aon.normalise(kind.make().to(dtype), include=kind.include, **options)
    with torch.no_grad():
        for gain in (p for name, p in layer.named_parameters() if name == "gain"):
            gain.mul_(torch.linspace(0.8, 1.2, len(gain)))
    return layer


def inputs(kind: Kind, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(kind.shape, dtype=dtype)


def sgd(
    model: nn.Module, x: Tensor, steps: int = 1, run: Callable[[nn.Module, Tensor], Tensor] | None = None
) -> list[Tensor]:
    """Steps of plain SGD on a fixed loss; the gradients of the last one."""
    for _ in range(steps):
        model.zero_grad()
        out = model(x) if run is None else run(model, x)
        out.square().mean().backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.3 * p.grad
    return [p.grad.clone() for p in model.parameters()]


def state(model: nn.Module) -> dict[str, Tensor]:
    return {key: value.clone() for key, value in model.state_dict().items()}


def same_state(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[key].nan_to_num(), b[key].nan_to_num()) for key in a)


# --- what it computes ---------------------------------------------------------------------------------------------


@each_map
@each_layer
def test_shape_dtype_and_class_are_kept(options, kind):
    for dtype in (torch.float32, torch.float64):
        plain = kind.make().to(dtype)
        theirs, weight = type(plain), plain.weight
        expected = plain(inputs(kind, dtype))
        layer = aon.normalise(plain, include=kind.include, **options)
        out = layer(inputs(kind, dtype))
        assert (out.shape, out.dtype) == (expected.shape, expected.dtype)
        assert layer is plain
        assert isinstance(layer, theirs)
        assert layer.weight is weight
        assert aon.normalised_weight(layer).shape == weight.shape
        assert aon.normalised_weight(layer).dtype == dtype


@each_map
@each_layer
def test_output_is_that_of_a_plain_layer_with_the_mapped_weight(options, kind):
    layer, x = normalised(kind, options).eval(), inputs(kind)
    plain = kind.make()
    plain.load_state_dict({k: v for k, v in layer.state_dict().items() if k in ("weight", "bias")})
    H = aon.normalised_weight(layer)
    if layer.gain is not None:
        axis = 1 if isinstance(layer, nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d) else 0
        H = H * gain_on_axis(layer, H, axis)
    plain.weight.data.copy_(H)
    torch.testing.assert_close(layer(x), plain(x), atol=1e-5, rtol=1e-5)


def gain_on_axis(layer: Any, H: Tensor, axis: int) -> Tensor:
    """The gain, one for each output, where the outputs lie in the weight."""
    rest = (1,) * (H.dim() - 2)
    if axis == 0:
        return layer.gain.reshape(-1, 1, *rest)
    per_group = layer.gain.reshape(layer.groups, -1)  # a transposed weight is (inputs, outputs of one group, ...)
    return per_group.repeat_interleave(H.shape[0] // layer.groups, dim=0).reshape(H.shape[0], -1, *rest)


@each_map
@each_layer
def test_training_and_evaluation_compute_the_same(options, kind):
    layer, x = normalised(kind, options, torch.float64), inputs(kind, torch.float64)
    trained = layer(x)
    with torch.no_grad():
        torch.testing.assert_close(layer.eval()(x), trained, atol=1e-12, rtol=0)


@each_map
@some_layers
def test_gradcheck(options, kind):
    """With many power steps u is the leading vector, where the paper's gradient is the derivative."""
    options = options if "map" in options else {**options, "n_power_iterations": 100}
    layer, x = normalised(kind, options, torch.float64), inputs(kind, torch.float64)
    names, values = zip(*layer.named_parameters(), strict=True)
    start = {k: v.clone() for k, v in layer.named_buffers()}

    def output(x: Tensor, *parameters: Tensor) -> Tensor:
        for name, buffer in layer.named_buffers():
            buffer.data.copy_(start[name])
        return functional_call(layer, dict(zip(names, parameters, strict=True)), (x,))

    leaves = [t.detach().clone().requires_grad_() for t in (x, *values)]
    torch.autograd.gradcheck(output, leaves, fast_mode=True, nondet_tol=1e-12)


@each_map
@each_layer
def test_forming_the_weight_and_applying_a_factor_after_it_are_the_same(options, kind, monkeypatch):
    """Output, gradients of input, weight, gain and bias, and the state that follows."""
    layer = normalised(kind, options, torch.float64)
    other, x = copy.deepcopy(layer), inputs(kind, torch.float64)
    results = []
    for model, factored in ((layer, False), (other, True)):
        chosen = (lambda self, _: self.map.factor(self._matrix(), self.gain)) if factored else (lambda *_: None)
        monkeypatch.setattr(NormalisedLayer, "_factor", chosen)
        leaf = x.clone().requires_grad_()
        out = model(leaf)
        out.tanh().sum().backward()
        results.append([out, leaf.grad, *(p.grad for p in model.parameters()), *model.buffers()])
    for formed, applied in zip(*results, strict=True):
        torch.testing.assert_close(applied, formed, atol=1e-12, rtol=1e-12, equal_nan=True)


@aon_maps
def test_small_inputs_take_the_factor_and_large_ones_the_weight(options):
    """And nobody can see which: a batch of one equals its row in a batch of many."""
    layer = normalised(Kind(lambda: nn.Linear(64, 4), ()), options, torch.float64)
    x = torch.randn(200, 64, dtype=torch.float64)
    torch.testing.assert_close(layer(x[:1]), layer(x)[:1], atol=1e-13, rtol=0)
    if not layer.map.is_spectral:
        assert layer._factor(1) is not None
    assert layer._factor(1000) is None


@each_map
@some_layers
def test_a_few_steps_of_training_lower_the_loss(options, kind):
    layer, x = normalised(kind, options), inputs(kind)
    before = layer(x).square().mean()
    sgd(layer, x, 10)
    assert layer(x).square().mean() < before
    assert all(p.isfinite().all() for p in layer.parameters())


# --- what it keeps and what it leaves alone -----------------------------------------------------------------------


@each_map
@each_layer
def test_evaluation_and_reading_change_nothing(options, kind):
    layer, x = normalised(kind, options), inputs(kind)
    sgd(layer, x, 2)
    before, versions = state(layer), [t._version for t in layer.state_dict().values()]
    for _ in range(2):
        layer.train()
        aon.normalised_weight(layer)
        aon.spectra(layer)
        str(aon.survey(layer))
        repr(layer)
        layer.eval()
        layer(x)
        with torch.no_grad():
            layer(x)
        with torch.inference_mode():
            layer(x)
        aon.normalised_weight(layer)
    assert same_state(state(layer), before)
    assert [t._version for t in layer.state_dict().values()] == versions


@each_map
@each_layer
def test_the_raw_weight_is_never_written(options, kind):
    layer, x = normalised(kind, options), inputs(kind)
    weight = layer.weight.detach().clone()
    layer(x).sum().backward()
    layer.eval()(x)
    assert torch.equal(layer.weight, weight)


@each_map
@each_layer
def test_state_dict_round_trip(options, kind):
    layer, x = normalised(kind, options), inputs(kind)
    sgd(layer, x, 3)
    other = aon.normalise(kind.make(), include=kind.include, **options)
    other(x)
    report = other.load_state_dict(layer.state_dict())
    assert not report.missing_keys
    assert not report.unexpected_keys
    assert torch.equal(other.eval()(x), layer.eval()(x))
    for mine, theirs in zip(sgd(other.train(), x), sgd(layer.train(), x), strict=True):
        assert torch.equal(mine, theirs)
    assert same_state(state(other), state(layer))


@each_map
@each_layer
def test_a_plain_checkpoint_loads(options, kind):
    """Strictly, and the layer is then as if the plain one had been normalised."""
    plain, x = kind.make(), inputs(kind)
    layer = normalised(kind, options)
    sgd(layer, x, 3)
    report = layer.load_state_dict(copy.deepcopy(plain.state_dict()), strict=True)
    assert not report.missing_keys
    expected = aon.normalise(plain, include=kind.include, **options)
    assert same_state(state(layer), state(expected))
    assert torch.equal(layer.eval()(x), expected.eval()(x))


@each_map
@each_layer
def test_a_plain_model_reports_the_additional_keys(options, kind):
    layer, plain = normalised(kind, options), kind.make()
    additional = sorted(layer.state_dict().keys() - plain.state_dict().keys())
    assert set(additional) <= {"gain", "map.u", "map.previous", "map.seen"}
    assert sorted(plain.load_state_dict(layer.state_dict(), strict=False).unexpected_keys) == additional
    assert torch.equal(plain.weight, layer.weight)
    if additional:
        with pytest.raises(RuntimeError, match=r"Unexpected key\(s\) in state_dict: .*gain|Unexpected key.*map"):
            plain.load_state_dict(layer.state_dict(), strict=True)


def by_pickle(model: Any) -> Any:
    return pickle.loads(pickle.dumps(model))  # noqa: S301


def by_file(model: Any) -> Any:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, by_pickle, by_file])
@each_map
@some_layers
def test_copies(duplicate, options, kind):
    """The same function and the same next step, and nothing in common; in training and after evaluation."""
    layer, x = normalised(kind, options), inputs(kind)
    sgd(layer, x, 2)
    with torch.no_grad():
        expected = layer.eval()(x)
        other = duplicate(layer)
        assert type(other) is type(layer)
        assert torch.equal(other(x), expected)
        for mine, theirs in zip(sgd_in_training(other, x), sgd_in_training(copy.deepcopy(layer), x), strict=True):
            assert torch.equal(mine, theirs)
        assert torch.equal(layer(x), expected)


@torch.enable_grad()
def sgd_in_training(model: nn.Module, x: Tensor) -> list[Tensor]:
    return sgd(model.train(), x)


@some_maps
@each_layer
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_conversion_of_the_dtype(options, kind, dtype):
    layer, x = normalised(kind, options), inputs(kind)
    expected = layer.eval()(x)
    layer.to(dtype)
    out = layer(x.to(dtype))
    assert out.dtype == layer.weight.dtype == dtype
    assert all(torch.finfo(b.dtype).bits >= 32 for b in layer.map.buffers())
    # Half precision loses digits in the input, the weight and the sum.
    torch.testing.assert_close(out.float(), expected, atol=20 * max(torch.finfo(dtype).eps, 1e-6), rtol=0)
    sgd(layer.train(), x.to(dtype), 2)
    assert all(p.isfinite().all() and p.dtype == dtype for p in layer.parameters())
    layer.float()
    assert layer.eval()(x).dtype == torch.float32
    assert all(b.dtype == torch.float32 for b in layer.map.buffers())


@each_map
@each_layer
def test_functional_call(options, kind):
    """Other parameters give their own h(W), in evaluation and in training; the layer's stay as they are."""
    layer, x = normalised(kind, options), inputs(kind)
    other = copy.deepcopy(layer)
    with torch.no_grad():
        other.weight.add_(0.1 * torch.randn_like(other.weight))
    tensors = {k: v.detach().clone() for k, v in other.state_dict().items()}
    for mode in (False, True):
        layer.train(mode), other.train(mode)
        before = state(layer)
        with torch.no_grad():
            layer(x) if not mode else None
            found = functional_call(layer, tensors, (x,))
            torch.testing.assert_close(found, other(x), atol=1e-6, rtol=1e-6)
        assert same_state(state(layer), before)


@some_maps
@some_layers
def test_average_of_a_model(options, kind):
    layer, x = normalised(kind, options), inputs(kind)
    average = AveragedModel(layer, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.5))
    for _ in range(3):
        sgd(layer, x)
        average.update_parameters(layer)
    assert not torch.equal(average.module.weight, layer.weight)
    expected = normalised(kind, options)
    expected.load_state_dict(average.module.state_dict())
    with torch.no_grad():
        assert torch.equal(average.eval()(x), expected.eval()(x))


@each_map
@each_layer
def test_fold(options, kind):
    """torch's own class with nothing of ours left, and exactly the function that evaluation computes."""
    layer, x = normalised(kind, options), inputs(kind)
    sgd(layer, x, 2)
    weight, mode = layer.weight, layer.training
    with torch.no_grad():
        expected = layer.eval()(x)
    layer.train(mode)
    assert aon.fold(layer) is layer
    plain = kind.make()
    assert type(layer) is type(plain)
    assert vars(layer).keys() == vars(plain).keys()
    assert layer.state_dict().keys() == plain.state_dict().keys()
    assert layer.weight is weight
    assert layer.training is mode
    with torch.no_grad():
        assert torch.equal(layer.eval()(x), expected)


# --- u moves once for each update ---------------------------------------------------------------------------------


@pytest.mark.parametrize("reentrant", [True, False], ids=["reentrant", "non_reentrant"])
@each_map
@each_layer
def test_activation_checkpointing_gives_identical_gradients(reentrant, options, kind):
    layer, x = normalised(kind, options), inputs(kind).requires_grad_()
    other = copy.deepcopy(layer)
    expected = sgd(layer, x, 3)
    found = sgd(other, x, 3, run=lambda model, x: checkpoint(model, x, use_reentrant=reentrant))
    for mine, theirs in zip(found, expected, strict=True):
        assert torch.equal(mine, theirs)
    assert same_state(state(other), state(layer))


@pytest.mark.parametrize("reentrant", [True, False], ids=["reentrant", "non_reentrant"])
def test_torchs_parametrisation_does_not(reentrant):
    """The guard of the test above: it would see the difference."""
    layer = torch.nn.utils.parametrizations.spectral_norm(nn.Linear(32, 32))
    other, x = copy.deepcopy(layer), torch.randn(3, 32, requires_grad=True)
    expected = sgd(layer, x)
    found = sgd(other, x, run=lambda model, x: checkpoint(model, x, use_reentrant=reentrant))
    assert not all(torch.allclose(mine, theirs, rtol=1e-3) for mine, theirs in zip(found, expected, strict=True))


@each_map
@each_layer
def test_two_forwards_before_one_backward(options, kind):
    """Both see the same h(W): the gradient of the sum is the sum of the gradients."""
    layer, x, y = normalised(kind, options, torch.float64), inputs(kind, torch.float64), inputs(kind, torch.float64)
    other = copy.deepcopy(layer)
    (layer(x).square().mean() + layer(y).tanh().mean()).backward()
    for part in (lambda: other(x).square().mean(), lambda: other(y).tanh().mean()):  # accumulation
        part().backward()
    for mine, theirs in zip(layer.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, atol=1e-13, rtol=1e-12)
    assert same_state(state(layer), state(other))
    assert torch.equal(layer(x), other(x))


@aon_maps
@each_layer
def test_u_moves_once_for_each_update(options, kind):
    layer, x = normalised(kind, options), inputs(kind)
    often = copy.deepcopy(layer)
    places = [layer.map.u.clone()]
    for _ in range(4):
        for _ in range(3):
            often(x)
        often.eval()(x)
        often.train()
        with torch.no_grad():
            often(x)
        sgd(often, x)
        sgd(layer, x)
        places.append(layer.map.u.clone())
        assert same_state(state(often), state(layer))
    if layer.map.u.shape[-1] > 1:
        assert all(not torch.equal(a, b) for a, b in itertools.pairwise(places[1:]))


# --- evaluation costs what the plain layer costs ------------------------------------------------------------------


def counted(layer: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows with every evaluation of the layer's map."""
    calls: list[int] = []
    for name in ("forward", "read"):
        original = getattr(type(layer.map), name)

        def call(self: Any, *args: Any, _original: Any = original, **kwargs: Any) -> Any:
            calls.append(1)
            return _original(self, *args, **kwargs)

        monkeypatch.setattr(type(layer.map), name, call)
    return calls


@each_map
@each_layer
def test_evaluation_computes_the_map_once(options, kind, monkeypatch):
    layer, x = normalised(kind, options).eval(), inputs(kind)
    with torch.no_grad():
        expected = layer(x)
        calls = counted(layer, monkeypatch)
        for _ in range(3):
            assert torch.equal(layer(x), expected)
        with torch.inference_mode():
            assert torch.equal(layer(x), expected)
    assert not calls


@torch.no_grad()
def optimiser_step(layer: Any) -> None:
    for p in layer.parameters():
        p.grad = torch.ones_like(p)
    torch.optim.SGD(layer.parameters(), 0.1).step()


@torch.no_grad()
def load(layer: Any) -> None:
    layer.load_state_dict({k: v * 0.9 + 0.1 if k == "weight" else v for k, v in state(layer).items()})


@torch.no_grad()
def load_by_assignment(layer: Any) -> None:
    layer.load_state_dict({k: v + 0.1 if k == "weight" else v for k, v in state(layer).items()}, assign=True)


@torch.no_grad()
def write_in_place(layer: Any) -> None:
    layer.weight.view(-1)[1] += 0.5


def write_data(layer: Any) -> None:
    layer.weight.data.view(-1)[1] += 0.5


def write_numpy(layer: Any) -> None:
    layer.weight.detach().numpy().ravel()[1] += 0.5


def negate_data(layer: Any) -> None:
    layer.weight.data.neg_()


def swap_rows_data(layer: Any) -> None:
    rows = layer.weight.data
    rows[[0, 1]] = rows[[1, 0]].clone()


def swap_columns_data(layer: Any) -> None:
    columns = layer.weight.data.flatten(1)
    columns[:, [0, -1]] = columns[:, [-1, 0]].clone()
    layer.weight.data.copy_(columns.view_as(layer.weight))


def replace(layer: Any) -> None:
    layer.weight = nn.Parameter(layer.weight.detach() + 0.1)


CHANGES = [
    optimiser_step,
    load,
    load_by_assignment,
    write_in_place,
    write_data,
    write_numpy,
    negate_data,
    swap_rows_data,
    swap_columns_data,
    replace,
]


def recomputed(layer: Any) -> Any:
    """A copy, which has nothing stored."""
    return copy.deepcopy(layer)


@pytest.mark.parametrize("change", CHANGES)
@some_maps
@some_layers
def test_the_stored_weight_is_recomputed_when_the_weight_changes(change, options, kind):
    layer, x = normalised(kind, options).eval(), inputs(kind)
    with torch.no_grad():
        before = layer(x)
        change(layer)
        after = layer(x)
        assert torch.equal(after, recomputed(layer)(x))
        assert not torch.equal(after, before)


@pytest.mark.parametrize("through", ["in_place", "data"])
@pytest.mark.parametrize("name", ["gain", "map.u", "map.previous"])
@pytest.mark.parametrize("kind", [LAYERS["linear_wide"], LAYERS["linear_tall"]], ids=["wide", "tall"])
def test_the_stored_weight_is_recomputed_when_the_state_changes(name, through, kind):
    layer, x = normalised(kind, {"order": 2}), inputs(kind)
    if name == "map.previous":
        layer(x)  # the weight is not new then, and the step is repeated from the vector before
    layer.eval()
    with torch.no_grad():
        before = layer(x)
        tensor = layer.state_dict()[name]
        tensor = tensor.data if through == "data" else tensor
        tensor.copy_(torch.nn.functional.normalize(torch.ones_like(tensor), dim=-1))
        after = layer(x)
        assert torch.equal(after, recomputed(layer)(x))
        assert not torch.equal(after, before)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_a_small_change_of_one_number_is_seen_in_every_precision(dtype):
    """Through `.data`, which no version counter tells of: the last ten bits of one weight of many, which moves h(W) by
    less than its rounding. What is smaller still may pass unseen (layers._probe)."""
    layer, x = aon.normalise(nn.Linear(300, 20)).to(dtype).eval(), torch.eye(300, dtype=dtype)[7]
    with torch.no_grad():
        for place in (0, 1, 7, 150, 299):
            layer(x)
            held = layer._stored
            layer.weight.data[3, place] *= 1 + 1024 * torch.finfo(dtype).eps
            layer(x)
            assert layer._stored is not held


def test_gradients_in_evaluation():
    """Evaluation with gradients computes the map anew, with its gradient; without, the stored weight has none."""
    layer, x = aon.normalise(nn.Linear(7, 4)).eval(), torch.randn(3, 7)
    layer(x).sum().backward()
    assert layer.weight.grad.abs().sum() > 0
    layer.requires_grad_(False)
    leaf = x.clone().requires_grad_()
    layer(leaf).sum().backward()
    assert leaf.grad.abs().sum() > 0
    assert layer._stored is not None
