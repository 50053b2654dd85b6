"""Build sdist and wheel, check them, and test the wheel in an empty environment.

    make dist

The environment gets torch first, in the version that the Makefile pins, then the wheel alone, then its extra [lab].
Each step prints how long it took.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
DIST = REPOSITORY / "dist"
LOCK = REPOSITORY / "requirements" / "ci.txt"
LIBRARY = """
import torch, aon
from torch import nn
assert "site-packages" in aon.__file__, aon.__file__
model = aon.normalise(nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8 * 4, 5)))
x = torch.randn(16, 3, 4, 4)
model(x).square().mean().backward()
expected = model.eval()(x)
assert torch.allclose(aon.fold(model)(x), expected, atol=1e-6)
print("aon", aon.__version__, "with torch", torch.__version__)
"""
TRAIN = "train --preset quick --method bn+aon --epochs 1 --width 0.0625 --train-size 128 --test-size 64 --threads 1"


def step(what: str, *command: str | Path, fails: bool = False, cwd: Path | None = None) -> str:
    """Run a command and return what it printed; stop everything where it does not end as it should."""
    start = time.monotonic()
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False, env=clean, cwd=cwd
    )
    text = (done.stdout + done.stderr).strip()
    if (done.returncode != 0) != fails:
        sys.exit(f"make dist: {what} ended with status {done.returncode}:\n{text}")
    print(f"{what}: {time.monotonic() - start:.0f} s", flush=True)
    return text


def build() -> Path:
    """Build both files, check their metadata and contents; the path of the wheel."""
    shutil.rmtree(DIST, ignore_errors=True)
    step("build sdist and wheel", sys.executable, "-m", "build", "--outdir", DIST, REPOSITORY)
    (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    step("twine check --strict", sys.executable, "-m", "twine", "check", "--strict", sdist, wheel)
    step("check-wheel-contents", Path(sys.executable).parent / "check-wheel-contents", wheel, cwd=REPOSITORY)
    names = zipfile.ZipFile(wheel).namelist()
    assert any(name.endswith("cifar10_sample/train.webp") for name in names), "the sample data is not in the wheel"
    assert "aon/py.typed" in names, "py.typed is not in the wheel"
    assert not any(name.startswith("aon/lab/bench/") for name in names), "benchmarks are in the wheel"
    print(f"{wheel.name}: {len(names)} files, {wheel.stat().st_size / 2**20:.1f} MB; {sdist.name}: ", end="")
    print(f"{sdist.stat().st_size / 2**20:.1f} MB", flush=True)
    return wheel


def try_library(python: Path, wheel: Path, torch: str, folder: Path) -> None:
    """The wheel without extras: the library works, and the command says what it lacks."""
    step(f"install torch {torch}", python, "-m", "pip", "install", "-q", f"torch=={torch}")
    step("install the wheel", python, "-m", "pip", "install", "-q", wheel)
    text = step("normalise, train, fold", python, "-W", "ignore", "-c", LIBRARY, cwd=folder)
    print(text.splitlines()[-1])
    text = step("aon without [lab]", python.parent / "aon", "--version", fails=True, cwd=folder)
    assert text.splitlines()[-1].startswith("aon: the command needs"), text


def try_laboratory(python: Path, wheel: Path, folder: Path) -> None:
    """The wheel with [lab]: version, one small epoch of training, and the line about benchmarks."""
    step("install the extra [lab]", python, "-m", "pip", "install", "-q", "-c", LOCK, f"{wheel}[lab]")
    aon = python.parent / "aon"
    text = step("aon --version", aon, "--version", cwd=folder)
    assert wheel.name.startswith(f"aon-{text.removeprefix('aon ')}-"), text
    step("aon train, one small epoch", aon, *TRAIN.split(), "--out", folder / "run", cwd=folder)
    assert (folder / "run").is_dir(), "the run left no folder"
    text = step("aon bench from a wheel", aon, "bench", "step", fails=True, cwd=folder)
    assert "runs from the source tree only" in text, text


def main() -> None:
    """Build, check, install, try."""
    if len(sys.argv) != 2:
        sys.exit("expected the version of torch, e.g. check_dist.py 2.13.0")
    wheel = build()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "venv", with_pip=True)
        python = folder / "venv" / "bin" / "python"
        try_library(python, wheel, sys.argv[1], folder)
        try_laboratory(python, wheel, folder)
    print("dist: the wheel works in an empty environment")


if __name__ == "__main__":
    main()
