"""Train a normalised transformer with Hugging Face's `Trainer`.

The model is built from a config, so nothing is downloaded. `aon.normalise` changes its Linear layers in place before
the `Trainer` gets it; the classifier stays plain. The task: which of two marker tokens comes first in a sequence.

Needs: pip install transformers accelerate

    python examples/huggingface_trainer.py
"""

import tempfile
from typing import Any

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

import aon

LENGTH, WORDS, FIRST, SECOND = 8, 20, 1, 2


class Order(Dataset[dict[str, torch.Tensor]]):
    """Random sequences with two markers; the label says which marker comes first."""

    def __init__(self, size: int) -> None:
        self.tokens = torch.randint(3, WORDS, (size, LENGTH))
        places = torch.rand(size, LENGTH).argsort(1)[:, :2]
        self.tokens.scatter_(1, places, torch.tensor([[FIRST, SECOND]]).expand(size, 2))
        self.labels = (places[:, 0] > places[:, 1]).long()

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.tokens[index], "labels": self.labels[index]}


def accuracy(prediction: Any) -> dict[str, float]:
    """What the `Trainer` asks for after an evaluation."""
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def main() -> None:
    """Build, normalise, train, evaluate, fold, evaluate again."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=WORDS, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, num_labels=2
    )
    model = aon.normalise(BertForSequenceClassification(config), exclude="classifier")
    print(f"normalised layers: {len(aon.spectra(model))}")
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, num_train_epochs=2, per_device_train_batch_size=64, per_device_eval_batch_size=256,
            learning_rate=3e-3, report_to="none", save_strategy="no", disable_tqdm=True, use_cpu=True, seed=0,
        )  # fmt: skip
        trainer = Trainer(
            model, arguments, train_dataset=Order(4000), eval_dataset=Order(500), compute_metrics=accuracy
        )
        trainer.train()
        before = trainer.evaluate()["eval_accuracy"]
        aon.fold(model)
        after = trainer.evaluate()["eval_accuracy"]
    print(f"accuracy: {100 * before:.1f} %, after fold: {100 * after:.1f} %")


if __name__ == "__main__":
    main()
