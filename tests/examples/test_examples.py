"""Every example runs as a reader would run it, in a process of its own, and what it prints is true."""

import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.processes import completed

EXAMPLES = Path(__file__).parents[2] / "examples"
# The packages that an example needs beyond torch and aon; they come with the extra [dev].
NEEDS = {
    "accelerate_accumulation": ["accelerate"],
    "accelerate_launch": ["accelerate"],
    "huggingface_trainer": ["transformers", "accelerate"],
    "lightning_launch": ["lightning"],
    "lightning_module": ["lightning"],
    "serve_onnx": ["onnx", "onnxscript", "onnxruntime"],
}


def run(name: str, *arguments: str, launcher: Sequence[str] = ()) -> str:
    """What an example prints; it must end well."""
    for package in NEEDS.get(name, []):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} comes with the extra [dev]")
    command = [sys.executable, *launcher, str(EXAMPLES / f"{name}.py"), *arguments]
    done = completed(command, env=os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"})
    assert done.returncode == 0, done.stderr
    return done.stdout


def number(before: str, text: str) -> float:
    """The number that follows some words."""
    found = re.search(re.escape(before) + r"\s*([-+.\de]+)", text)
    assert found, f"no number after {before!r} in:\n{text}"
    return float(found[1])


def test_bare_loop():
    text = run("bare_loop")
    assert text.index("Before training") < text.index("After training")
    assert number("accuracy on new points:", text) > 95
    assert "layers after fold: Linear, ReLU" in text
    assert "fold keeps the outputs: True" in text


def test_continue_from_checkpoint():
    text = run("continue_from_checkpoint")
    loaded = number("error after loading it into a normalised network:", text)
    assert number("error after training on:", text) < loaded / 4
    assert "the plain network computes the same: True" in text


def test_gan_discriminator():
    text = run("gan_discriminator")
    words = "distance between generated and real points"
    assert number(f"{words} after:", text) < number(f"{words} before:", text) / 4
    assert number("(at most 1 by its norms):", text) <= 1


def test_serve_onnx():
    text = run("serve_onnx")
    assert "batch of 5 images served by onnxruntime" in text
    assert "outputs are equal: True" in text


def test_huggingface_trainer():
    text = run("huggingface_trainer")
    assert number("normalised layers:", text) == 7
    assert number("\naccuracy:", text) > 90
    assert number("after fold:", text) == number("\naccuracy:", text)


def test_lightning_module():
    text = run("lightning_module")
    assert number("accuracy on new images:", text) > 90
    assert "the checkpoint gives the same outputs: True" in text
    assert "fold keeps the outputs: True" in text


def test_accelerate_accumulation():
    text = run("accelerate_accumulation")
    assert number("largest difference between the losses of both ways:", text) < 1e-5
    assert number("operations with a shared map:", text) < 90
    assert number("at first, ", text) < number("; loss ", text)


def assert_trains_as_one_process(one: str, two: str) -> None:
    """Two processes hold the same bits, and end with the loss of one process to rounding."""
    pattern = r"process (\d) of (\d): loss ([\d.]+), model (\w{16})"
    ((*alone, loss, _),) = re.findall(pattern, one)
    first, second = sorted(re.findall(pattern, two))
    assert alone == ["0", "1"]
    assert [first[:2], second[:2]] == [("0", "2"), ("1", "2")]
    assert first[2:] == second[2:]
    assert float(first[2]) == pytest.approx(float(loss), rel=1e-4)
    assert float(loss) < 0.3  # 0.69 before training


def test_accelerate_launch():
    launcher = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1",
                "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]  # fmt: skip
    assert_trains_as_one_process(run("accelerate_launch"), run("accelerate_launch", launcher=launcher))


def test_lightning_launch():
    assert_trains_as_one_process(run("lightning_launch"), run("lightning_launch", "2"))


def test_every_example_has_a_test():
    programs = {path.stem for path in EXAMPLES.glob("*.py")}
    assert programs == {name.removeprefix("test_") for name in globals() if name.startswith("test_")} - {
        "every_example_has_a_test",
        "every_example_says_what_it_shows",
    }


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_every_example_says_what_it_shows(path):
    text = path.read_text(encoding="utf-8")
    assert text.startswith('"""')
    assert f"    python examples/{path.name}\n" in text
    assert all(f" {package}" in text for package in NEEDS.get(path.stem, []))
