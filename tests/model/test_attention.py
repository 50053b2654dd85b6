"""MultiheadAttention with mapped projections: q, k, v and the output, one matrix each."""

import copy
import io

import pytest
import torch
from torch import Tensor, nn

import aon
from aon.model.attention import NormalisedMultiheadAttention, NormalisedOutputProjection

OPTIONS = {
    "plain": {},
    "batch_first": {"batch_first": True},
    "no_bias": {"bias": False},
    "added": {"add_bias_kv": True, "add_zero_attn": True},
}
each = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def attention(**options) -> nn.MultiheadAttention:
    return nn.MultiheadAttention(8, 2, dtype=torch.float64, **options)


def scaled(model: nn.Module) -> nn.Module:
    """Gains moved off their start, so that they show."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("gain"):
                p.mul_(torch.linspace(0.5, 2, len(p)))
    return model


def with_mapped_weights(layer: NormalisedMultiheadAttention, plain: nn.MultiheadAttention) -> nn.MultiheadAttention:
    """The plain attention with the mapped matrices, each by the map's own definition, in its parameters."""
    mapped = [aon.functional.approx_orthonormal(W, scale=None) for W in layer.in_proj_weight.detach().chunk(3)]
    plain.load_state_dict({k: v for k, v in layer.state_dict().items() if "gain" not in k and "map" not in k})
    with torch.no_grad():
        plain.in_proj_weight.copy_(torch.cat(mapped) * layer.gain[:, None])
        plain.out_proj.weight.copy_(
            aon.functional.approx_orthonormal(layer.out_proj.weight, scale=None) * layer.out_proj.gain[:, None]
        )
    return plain


def inputs(kind: str) -> tuple[Tensor, Tensor, Tensor]:
    x, y, z = torch.randn(3, 5, 5, 8, dtype=torch.float64)
    return {"self": (x, x, x), "cross": (x, y, y), "three": (x, y, z), "unbatched": (x[0], y[0], z[0])}[kind]


@each
@pytest.mark.parametrize("kind", ["self", "cross", "three", "unbatched"])
@pytest.mark.parametrize("mode", ["train", "eval", "no_grad"])
def test_output_is_that_of_the_plain_attention_with_mapped_weights(options, kind, mode):
    """Without sigma, so that the comparison does not wait for a power iteration to converge."""
    layer = scaled(aon.normalise(attention(**options), scale=None)).train(mode == "train")
    plain = with_mapped_weights(layer, attention(**options)).train(mode == "train")
    q, k, v = inputs(kind)
    mask = torch.ones(5, 5, dtype=torch.bool).triu(1)
    with torch.set_grad_enabled(mode != "no_grad"):
        out, weights = layer(q, k, v, attn_mask=mask)
        expected, expected_weights = plain(q, k, v, attn_mask=mask)
        torch.testing.assert_close(out, expected, atol=1e-12, rtol=0)
        torch.testing.assert_close(weights, expected_weights, atol=1e-12, rtol=0)
        assert layer(q, k, v, need_weights=False)[1] is None


def test_gradients():
    layer, (q, k, v) = aon.normalise(attention()), inputs("three")
    state = copy.deepcopy(layer.state_dict())
    names = [name for name, _ in layer.named_parameters()]

    def output(*parameters: Tensor) -> Tensor:
        for name, buffer in layer.named_buffers():
            buffer.data.copy_(state[name])
        given = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(layer, given, (q, k, v))[0]

    torch.autograd.gradcheck(output, list(layer.parameters()), fast_mode=True, atol=1e-4)


def test_all_four_matrices_of_an_encoder_layer_are_normalised():
    model = aon.normalise(nn.TransformerEncoderLayer(8, 2, 16))
    assert type(model.self_attn) is NormalisedMultiheadAttention
    assert type(model.self_attn.out_proj) is NormalisedOutputProjection
    for W in (
        *aon.normalised_weight(model.self_attn).chunk(3),
        aon.normalised_weight(model.self_attn.out_proj),
        aon.normalised_weight(model.linear1),
        aon.normalised_weight(model.linear2),
    ):
        assert abs(torch.linalg.matrix_norm(W, 2) - 1) < 0.02
    assert [row.shape for row in aon.spectra(model)] == [(3, 8, 8), (8, 8), (16, 8), (8, 16)]


@each
def test_fold_gives_a_plain_attention_with_the_same_output(options):
    layer = scaled(aon.normalise(attention(**options))).eval()
    q, k, v = inputs("cross")
    expected = layer(q, k, v)[0]
    folded = aon.fold(layer)
    assert type(folded) is nn.MultiheadAttention
    assert folded.state_dict().keys() == attention(**options).state_dict().keys()
    torch.testing.assert_close(folded(q, k, v)[0], expected, atol=1e-12, rtol=0)


def test_plain_checkpoints_copies_and_files():
    plain, layer, file, x = attention(), aon.normalise(attention()).eval(), io.BytesIO(), inputs("self")
    layer.load_state_dict(plain.state_dict())
    torch.save(layer, file)
    file.seek(0)
    expected = aon.normalise(plain).eval()(*x)[0]
    for other in (layer, copy.deepcopy(layer), torch.load(file, weights_only=False)):
        assert torch.equal(other(*x)[0], expected)


def test_the_output_projection_may_stay_plain():
    layer = aon.normalise(attention(), exclude="out_proj")
    assert type(layer) is NormalisedMultiheadAttention
    assert not isinstance(layer.out_proj, NormalisedOutputProjection)
    layer(*inputs("self"))[0].sum().backward()
    assert layer.out_proj.weight.grad is not None
    assert layer.in_proj_weight.grad is not None


def test_accumulate_shares_the_projections():
    layer = aon.normalise(attention())
    other = copy.deepcopy(layer)
    batches = [inputs("cross") for _ in range(3)]
    for x in batches:
        layer(*x)[0].square().mean().backward()
    with aon.accumulate(other):
        for x in batches:
            other(*x)[0].square().mean().backward()
    for mine, theirs in zip(other.parameters(), layer.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, atol=1e-12, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype:UserWarning")
def test_nested_tensors_are_taken_in_evaluation_and_refused_in_training():
    layer = aon.normalise(nn.MultiheadAttention(8, 2, batch_first=True)).eval()
    rows = [torch.randn(3, 8), torch.randn(5, 8)]
    x = torch.nested.nested_tensor(rows)
    with torch.no_grad():
        out, _ = layer(x, x, x, need_weights=False)
        for mine, row in zip(out.unbind(), rows, strict=True):
            torch.testing.assert_close(mine, layer(row, row, row)[0], atol=1e-5, rtol=0)
    with pytest.raises(ValueError, match="expected self-attention in evaluation"):
        layer.train()(x, x, x)


def test_attention_with_keys_of_another_size_is_left_with_a_warning():
    model = nn.Sequential(nn.MultiheadAttention(8, 2, kdim=4), nn.Linear(8, 8))
    with pytest.warns(UserWarning, match=r"left 2 weights as they are: 0 \(its keys or values have another size"):
        aon.normalise(model)
    assert type(model[0]) is nn.MultiheadAttention
