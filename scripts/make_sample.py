"""Make the packaged `cifar10-sample` from the official CIFAR-10 files.

    python scripts/make_sample.py FOLDER [TARGET]

FOLDER holds cifar-10-batches-bin or cifar-10-batches-py; `aon data fetch cifar10` puts the first of them
into ~/.cache/aon. Takes the first 500 training and the first 100 test images of each class, in the official
order, and writes them to TARGET, src/aon/lab/data/cifar10_sample if none is named. The same input gives the
same pixels; the bytes of the WebP files may differ between versions of libwebp, and sample.json holds the
checksums of both.
"""

import hashlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from aon.lab.data import cifar, official, sample
from aon.lab.errors import LabError
from aon.lab.system.files import replacing, write_text

PACKAGED = Path(__file__).resolve().parents[1] / "src/aon/lab/data/cifar10_sample"


def main() -> None:
    """Read the official files named on the command line, write the sample."""
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    target = Path(sys.argv[2]) if len(sys.argv) == 3 else PACKAGED
    try:
        whole = cifar.load(official.CIFAR10, Path(sys.argv[1]))
        index = {
            "format": 1,
            "train": write_part(target / "train.webp", whole.x_train, whole.y_train, sample.N_TRAIN),
            "test": write_part(target / "test.webp", whole.x_test, whole.y_test, sample.N_TEST),
        }
        write_text(target / "sample.json", json.dumps(index, separators=(",", ":")) + "\n")
    except LabError as error:
        raise SystemExit(str(error)) from error
    sys.stdout.write(f"{sample.NAME} in {target}\n")


def write_part(path: Path, x: Tensor, y: Tensor, n: int) -> dict[str, Any]:
    """Write one mosaic, of `n` images; return its entry in sample.json."""
    chosen = first_of_each_class(y, n // 10)
    images = x[chosen].numpy()
    picture = io.BytesIO()
    Image.fromarray(sample.to_mosaic(images)).save(picture, "WEBP", lossless=True, quality=100, method=6)
    with replacing(path) as file:
        file.write(picture.getvalue())
    return {
        "sha256": hashlib.sha256(picture.getvalue()).hexdigest(),
        "pixels_sha256": hashlib.sha256(np.ascontiguousarray(images).tobytes()).hexdigest(),
        "indices": chosen.tolist(),
        "labels": y[chosen].tolist(),
    }


def first_of_each_class(y: Tensor, n: int) -> Tensor:
    """Indices of the first `n` images of every class, in ascending order."""
    return torch.cat([(y == label).nonzero()[:n, 0] for label in y.unique()]).sort().values


if __name__ == "__main__":
    main()
