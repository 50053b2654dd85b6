"""Nothing is skipped silently: every module with a weight matrix gets a row, and a reason that says what to do."""

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

import aon


def reasons(model: nn.Module, **words) -> dict[str, str]:
    return {row.name: row.reason for row in aon.survey(model, **words)}


class Tied(nn.Module):
    """A language model's usual head: the embedding's weight once more."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.hidden = nn.Linear(4, 4)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embedding.weight


class Own(nn.Linear):
    """A subclass whose forward is its own."""

    def forward(self, input):
        return super().forward(input) * 2


def test_plain_layers_are_taken():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(2, 2))
    assert reasons(model) == {"0": "", "3": ""}
    assert all(row.taken for row in aon.survey(model))


def test_tied_weights_are_left_and_the_owners_named():
    assert reasons(Tied()) == {
        "embedding": "not a Linear or convolution",
        "hidden": "",
        "head": "its weight is shared with embedding.weight; untie them first",
    }


def test_two_layers_with_one_weight():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    assert reasons(model) == {
        "0": "its weight is shared with 1.weight; untie them first",
        "1": "its weight is shared with 0.weight; untie them first",
        "2": "",
    }


def test_one_module_under_two_names_is_not_tied():
    shared = nn.Sequential(nn.Linear(4, 4))
    model = nn.ModuleDict({"a": shared, "b": shared})
    assert reasons(model) == {"a.0": ""}


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.complex64])
def test_integer_and_complex_weights(dtype):
    layer = nn.Linear(3, 2)
    layer.weight = nn.Parameter(torch.ones(2, 3, dtype=dtype), requires_grad=False)
    assert reasons(layer) == {"": f"weight is {dtype}; only real floating point is normalised"}


@pytest.mark.parametrize(
    "computed",
    [
        parametrizations.spectral_norm,
        parametrizations.weight_norm,
        parametrizations.orthogonal,
        nn.utils.spectral_norm,
        lambda layer: prune.l1_unstructured(layer, "weight", 0.5),
    ],
)
def test_a_weight_that_is_computed_already(computed):
    expected = "its weight is computed by another parametrisation or hook; remove that first"
    assert reasons(computed(nn.Linear(4, 4))) == {"": expected}


def test_a_subclass_with_code_of_its_own():
    assert reasons(Own(3, 2)) == {"": "Own is a subclass with code of its own; use torch's own class"}


def test_attention_reads_its_weights_directly():
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    attention = "MultiheadAttention reads its weights directly; write the attention with Linear layers instead"
    assert reasons(model) == {"self_attn": attention, "self_attn.out_proj": attention, "linear1": "", "linear2": ""}


def test_lazy_layers():
    assert reasons(nn.Sequential(nn.LazyLinear(3), nn.LazyConv2d(3, 3))) == dict.fromkeys(
        "01", "lazy, without a weight yet; run one batch through the model first"
    )


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
def test_an_empty_weight():
    assert reasons(nn.Linear(0, 3)) == {"": "its weight is empty"}


def test_a_weight_without_memory():
    assert reasons(nn.Linear(2, 3, device="meta")) == {"": "its weight is on the meta device; give it memory first"}


def test_normalised_layers():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    aon.normalise(model[0])
    assert reasons(model) == {"0": "normalised already; fold it first", "1": ""}


def test_words_and_depthwise():
    model = nn.Sequential(nn.Conv2d(4, 4, 3, groups=4), nn.Linear(2, 2), nn.Linear(2, 2))
    assert reasons(model, exclude="2") == {
        "0": "depthwise convolution; give its own name to include it",
        "1": "",
        "2": "excluded",
    }
    assert reasons(model, include=["0", "1"]) == {"0": "", "1": "", "2": "not included"}


def test_other_modules_with_matrices_are_listed():
    model = nn.Sequential(
        nn.Embedding(3, 4), nn.LSTM(4, 4), nn.Bilinear(2, 2, 2), nn.LayerNorm((3, 3)), nn.Linear(4, 4)
    )
    assert reasons(model) == dict.fromkeys("0123", "not a Linear or convolution") | {"4": ""}


def test_table():
    lines = str(aon.survey(Tied())).split("\n")
    assert lines[0].split() == ["module", "kind", "weight", "verdict"]
    assert lines[2].split() == ["hidden", "Linear", "4x4", "normalise"]
    assert "shared with embedding.weight" in lines[3]
    assert str(aon.survey(nn.Linear(2, 3))).split("\n")[1].split() == ["(the", "model)", "Linear", "3x2", "normalise"]


def test_a_survey_changes_nothing():
    model = Tied()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    aon.survey(model)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert type(model.hidden) is nn.Linear
    assert not parametrize.is_parametrized(model.hidden)
