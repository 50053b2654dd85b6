"""torch's fused transformer path must not compute with the raw weights."""

import copy
import io

import pytest
import torch
from torch import nn

import aon

NESTED = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype:UserWarning")
FUSED = "aten::_transformer_encoder_layer_fwd"


def encoder(**options) -> nn.TransformerEncoder:
    torch.manual_seed(0)
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True, **options), 2)


def tokens() -> tuple[torch.Tensor, torch.Tensor]:
    padding = torch.zeros(3, 5, dtype=torch.bool)
    padding[1, 3:] = True
    return torch.randn(3, 5, 16, generator=torch.Generator().manual_seed(0)), padding


@torch.no_grad()
def operators(model: nn.Module, *args, **kwargs) -> set[str]:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        model(*args, **kwargs)
    return {row.key for row in profile.key_averages()}


def test_the_fused_path_exists_and_is_wrong_for_a_layer_that_only_has_a_forward():
    """The guard: a plain encoder takes it, so the tests below look at something."""
    assert FUSED in operators(encoder().eval(), tokens()[0])


@NESTED
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    "layer_options", [{}, {"norm_first": True}, {"activation": "gelu"}], ids=["post", "pre", "gelu"]
)
@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True:UserWarning")
def test_evaluation_without_gradients_is_training_without_dropout(masked, layer_options):
    model = aon.normalise(encoder(**layer_options))
    x, padding = tokens()
    mask = {"src_key_padding_mask": padding} if masked else {}
    keep = ~padding if masked else torch.ones_like(padding)
    expected = model.train()(x, **mask)
    with torch.no_grad():
        torch.testing.assert_close(model.eval()(x, **mask)[keep], expected[keep], atol=1e-5, rtol=0)
    with torch.inference_mode():
        torch.testing.assert_close(model.eval()(x, **mask)[keep], expected[keep], atol=1e-5, rtol=0)


@NESTED
@pytest.mark.parametrize("masked", [False, True])
def test_one_linear_layer_alone(masked):
    """Whoever the parent is: only the layer was given to normalise."""
    model = encoder()
    aon.normalise(model.layers[1].linear2)
    x, padding = tokens()
    mask = {"src_key_padding_mask": padding} if masked else {}
    keep = ~padding if masked else torch.ones_like(padding)
    expected = model.train()(x, **mask)
    with torch.no_grad():
        torch.testing.assert_close(model.eval()(x, **mask)[keep], expected[keep], atol=1e-5, rtol=0)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True:UserWarning")
def test_an_encoder_made_of_a_normalised_layer():
    layer = aon.normalise(encoder().layers[0])
    model = nn.TransformerEncoder(layer, 2)
    x, _ = tokens()
    expected = model.train()(x)
    with torch.no_grad():
        torch.testing.assert_close(model.eval()(x), expected, atol=1e-5, rtol=0)


def test_copies_and_files_stay_off_the_path():
    model, file = aon.normalise(encoder()).eval(), io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for other in (copy.deepcopy(model), torch.load(file, weights_only=False)):
        assert FUSED not in operators(other, tokens()[0])


@NESTED
def test_fold_gives_the_path_back():
    model, (x, padding) = aon.normalise(encoder()).eval(), tokens()
    assert FUSED not in operators(model, x)
    with torch.no_grad():
        expected = model(x, src_key_padding_mask=padding)
        folded = aon.fold(model)(x, src_key_padding_mask=padding)
    torch.testing.assert_close(folded[~padding], expected[~padding], atol=1e-5, rtol=0)
    assert FUSED in operators(model, x)


def test_layers_with_a_normalised_part_only_are_kept_off():
    model = encoder()
    aon.normalise(model, include="layers.0")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile, torch.no_grad():
        model.eval()(tokens()[0])
    assert sum(row.count for row in profile.key_averages() if row.key == FUSED) == 1
