"""Models of the package transformers: normalise, train, save, load, fold, compare outputs."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import aon
from aon.model.layers import NormalisedLayer

transformers = pytest.importorskip("transformers", reason="transformers comes with the extra [dev]")

IMAGES = {"image_size": 16, "num_channels": 3, "num_labels": 3}


def resnet() -> nn.Module:
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=3
    )
    return transformers.ResNetForImageClassification(config)


def convnext() -> nn.Module:
    config = transformers.ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, patch_size=2, num_labels=3)
    return transformers.ConvNextForImageClassification(config)


def vit() -> nn.Module:
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, patch_size=4, **IMAGES
    )
    return transformers.ViTForImageClassification(config)


def bert() -> nn.Module:
    config = transformers.BertConfig(
        vocab_size=20, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, num_labels=3
    )
    return transformers.BertForSequenceClassification(config)


def images() -> dict[str, Tensor]:
    return {"pixel_values": torch.randn(12, 3, 16, 16)}


def words() -> dict[str, Tensor]:
    return {"input_ids": torch.randint(20, (12, 7)), "attention_mask": torch.ones(12, 7, dtype=torch.long)}


MODELS = {"resnet": (resnet, images), "convnext": (convnext, images), "vit": (vit, images), "bert": (bert, words)}
each_model = pytest.mark.parametrize(("make", "batch"), MODELS.values(), ids=MODELS)


def train(model: Any, inputs: dict[str, Tensor], labels: Tensor, steps: int) -> list[float]:
    optimiser = torch.optim.AdamW(model.parameters(), 1e-2)
    losses = []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = model.train()(**inputs, labels=labels).loss
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def logits(model: Any, inputs: dict[str, Tensor]) -> Tensor:
    with torch.no_grad():
        return model.eval()(**inputs).logits


def normalised_layers(model: nn.Module) -> list[nn.Module]:
    return [module for module in model.modules() if isinstance(module, NormalisedLayer)]


@each_model
def test_normalise_train_save_load_fold(make: Callable[[], Any], batch: Callable[[], dict[str, Tensor]], tmp_path):
    torch.manual_seed(0)
    model, inputs, labels = make(), batch(), torch.randint(3, (12,))
    plain_keys = model.state_dict().keys()
    classes = {name: type(module) for name, module in model.named_modules()}

    aon.normalise(model)
    assert len(normalised_layers(model)) >= 4
    losses = train(model, inputs, labels, 20)
    assert losses[-1] < 0.8 * losses[0]
    trained = logits(model, inputs)

    torch.save(model.state_dict(), tmp_path / "state.pt")
    other = aon.normalise(make())
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert torch.equal(logits(other, inputs), trained)

    aon.fold(model)
    assert {name: type(module) for name, module in model.named_modules()} == classes
    assert model.state_dict().keys() == plain_keys
    assert torch.equal(logits(model, inputs), trained)

    model.save_pretrained(tmp_path / "folded")
    again = type(model).from_pretrained(tmp_path / "folded")
    torch.testing.assert_close(logits(again, inputs), trained, atol=1e-6, rtol=0)


@each_model
def test_a_plain_checkpoint_goes_in_and_comes_out(make, batch):
    torch.manual_seed(0)
    plain, inputs = make(), batch()
    model = aon.normalise(make())
    model.load_state_dict(plain.state_dict(), strict=True)
    expected = aon.normalise(copy.deepcopy(plain))
    assert torch.equal(logits(model, inputs), logits(expected, inputs))
    report = plain.load_state_dict(model.state_dict(), strict=False)
    assert not report.missing_keys
    assert all(".map." in key or key.endswith(".gain") for key in report.unexpected_keys)


def test_depthwise_convolutions_of_convnext_are_left_and_reported():
    rows = {row.name: row.reason for row in aon.survey(convnext())}
    depthwise = [name for name in rows if name.endswith("dwconv")]
    assert depthwise
    assert all("depthwise" in rows[name] for name in depthwise)


def test_tied_heads_of_bert_are_left_and_reported():
    config = transformers.BertConfig(
        vocab_size=20, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )
    torch.manual_seed(0)
    model = transformers.BertForMaskedLM(config)
    rows = {row.name: row.reason for row in aon.survey(model)}
    assert "shared with bert.embeddings.word_embeddings.weight" in rows["cls.predictions.decoder"]
    with pytest.warns(UserWarning, match=r"left 1 weight as they are: cls\.predictions\.decoder"):
        aon.normalise(model)
    assert model.cls.predictions.decoder.weight is model.bert.embeddings.word_embeddings.weight
    inputs = {"input_ids": torch.randint(20, (4, 7))}
    losses = train(model, inputs, inputs["input_ids"], 10)
    assert losses[-1] < losses[0]


def test_gradient_checkpointing_of_transformers():
    """Its own switch, with the gradients of the same model without."""
    torch.manual_seed(0)
    model, inputs, labels = aon.normalise(vit()), images(), torch.randint(3, (12,))
    other = copy.deepcopy(model)
    other.gradient_checkpointing_enable({"use_reentrant": False})
    for net in (model, other):
        net.train()(**inputs, labels=labels).loss.backward()
    for mine, theirs in zip(other.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, atol=5e-6, rtol=0)  # maps together and alone, in float32
