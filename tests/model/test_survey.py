"""Nothing is skipped silently: every module with a weight matrix gets a row, with a reason that says what to do."""

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

import aon
from aon.kernels.radius import largest_over_centre
from aon.kernels.settings import Settings


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


READ = "its MultiheadAttention reads the weight; normalise that, of which it is a part"


def test_attention_is_taken_with_its_output_projection():
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    assert reasons(model) == dict.fromkeys(("self_attn", "self_attn.out_proj", "linear1", "linear2"), "")
    assert reasons(model, exclude="self_attn.out_proj")["self_attn"] == ""


def test_an_output_projection_alone_would_be_read_past_its_map():
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    assert reasons(model, include=nn.Linear)["self_attn.out_proj"] == READ
    with pytest.raises(ValueError, match=r"cannot normalise 'self_attn.out_proj' .*its MultiheadAttention reads"):
        aon.normalise(model, include="self_attn.out_proj")


def test_attention_with_keys_of_another_size():
    reason = reasons(nn.MultiheadAttention(8, 2, kdim=4))
    assert reason[""].startswith("its keys or values have another size than its queries")
    assert reason["out_proj"] == READ


def test_a_forward_of_the_instance():
    """As hook libraries put one there: class and map would be passed by."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[0].forward = model[0].forward
    assert "replaced on the instance" in reasons(model)["0"]
    with pytest.warns(UserWarning, match=r"left 1 weight as they are: 0 \(its forward was replaced on the instance"):
        aon.normalise(model)
    with pytest.raises(ValueError, match=r"cannot normalise '0' .*its forward was replaced on the instance"):
        aon.normalise(nn.Sequential(model[0]), include="0")


def test_which_rows_are_unexpected():
    class Own(nn.Linear):
        pass

    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.ones(3, 2))

    model = nn.Sequential(
        nn.Embedding(3, 2), nn.Conv1d(2, 2, 1, groups=2), Positions(), nn.LSTM(2, 2), Own(2, 2), nn.Linear(2, 2)
    )
    assert [row.name for row in aon.survey(model, exclude="5") if row.unexpected] == ["3", "4"]


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


def test_weights_outside_the_radius_are_shown():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64))
    nn.init.kaiming_normal_(model[1].weight)
    _, inside, outside = str(aon.survey(model)).split("\n")
    assert inside.split(None, 3)[-1].strip() == "normalise"
    reach = largest_over_centre(model[1].weight, Settings())
    assert 6 < reach < 9
    note = f'normalise; eigenvalues up to {reach:.1f}, expansion="minimax" holds for every weight'
    assert outside.split(None, 3)[-1] == note
    assert all(row.taken for row in aon.survey(model))
