"""Kill a study at random moments, resume it, and compare its tables byte by byte with those of one left alone.

    python benchmarks/killed_study.py OUT --kills 10 --task digits --seeds 2 --slots 480 --games 4

Moments are drawn uniformly from the time that the study takes when it is left alone. A restart repeats what was not
kept, so a moment is found again by what had been written by then and how long ago.
"""

import argparse
import random
import subprocess
import sys
import time
from bisect import bisect_right
from pathlib import Path

KEPT = ("training/*/metrics.csv", "results/*.json", "tables/*", "figures/*", "claims.json", "report.html")
EVERY = 0.1
"""Seconds between two looks."""


def written(folder: Path) -> int:
    """Bytes of metrics, results and what is told of them."""
    total = 0
    for file in (file for kind in KEPT for file in folder.glob(kind)):
        try:
            total += file.stat().st_size
        except FileNotFoundError:  # renamed meanwhile
            continue
    return total


def start(words: list[str], folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "potluck", "study", "paper", *words, "--out", str(folder)]
    with (folder.parent / f"{folder.name}.log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log)


def followed(process: subprocess.Popen[bytes], folder: Path) -> list[tuple[float, int]]:
    """(seconds, bytes) each time that there are more bytes, and at the end."""
    begun, seen = time.monotonic(), [(0.0, 0)]
    while process.poll() is None:
        time.sleep(EVERY)
        if (now := written(folder)) > seen[-1][1]:
            seen.append((time.monotonic() - begun, now))
    return [*seen, (time.monotonic() - begun, seen[-1][1])]


def kill_after(process: subprocess.Popen[bytes], folder: Path, size: int, seconds: float) -> bool:
    """Kill it so many seconds after there are so many bytes; whether it was still at work."""
    while process.poll() is None and written(folder) < size:
        time.sleep(EVERY)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return True
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="an empty folder")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    told, words = parser.parse_known_args()
    whole, killed = told.out / "whole", told.out / "killed"
    told.out.mkdir(parents=True, exist_ok=True)
    for folder in (told.out / "compiling", whole):  # the first fills the compiler's cache, as the killed one finds it
        process = start(words, folder)
        seen = followed(process, folder)
        if process.returncode:
            sys.exit(f"the study that was left alone failed: see {folder}.log")
    print(f"left alone: {seen[-1][0]:.0f} s, {seen[-1][1]:,} bytes", flush=True)
    drawn, begun = random.Random(told.seed), time.monotonic()
    for moment in sorted(drawn.uniform(0, seen[-1][0]) for _ in range(told.kills)):
        at, size = seen[bisect_right(seen, (moment, sys.maxsize)) - 1]
        process = start(words, killed)
        hit = kill_after(process, killed, size, moment - at)
        print(f"{moment:.0f} s: {'killed' if hit else 'was over'} at {written(killed):,} bytes", flush=True)
    if start(words, killed).wait():
        sys.exit(f"the study that was killed failed: see {killed}.log")
    print(f"killed and resumed: {time.monotonic() - begun:.0f} s", flush=True)
    files = [*sorted((whole / "tables").iterdir()), whole / "claims.json"]
    unlike = [file.name for file in files if file.read_bytes() != (killed / file.relative_to(whole)).read_bytes()]
    print(f"{len(files) - len(unlike)} of {len(files)} files are equal byte for byte", *unlike, sep="\n")
    sys.exit(bool(unlike))


if __name__ == "__main__":
    main()
