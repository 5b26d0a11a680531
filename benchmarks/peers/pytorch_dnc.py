"""pytorch-dnc: one forward and backward pass. It never shows its controller what was read, so it does a little less."""

import sys
from importlib.metadata import version

import torch
from dnc import DNC

from potluck.studies.benchmarks.sequences import Sizes, median_milliseconds, report

from .threads import at_best_threads


def main(sizes: Sizes) -> None:
    torch.manual_seed(0)
    network = DNC(
        sizes.inputs,
        sizes.hidden,
        rnn_type="lstm",
        num_layers=1,
        num_hidden_layers=1,
        nr_cells=sizes.words,
        cell_size=sizes.width,
        read_heads=sizes.heads,
        batch_first=True,
    )
    x, told = torch.randn(2, sizes.batch, sizes.steps, sizes.inputs)

    def gradient() -> None:
        network.zero_grad()
        said, _ = network(x, (None, None, None), reset_experience=True)
        (said - told).square().mean().backward()

    speed, _ = at_best_threads(lambda: (1 / median_milliseconds(gradient), 0.0))
    report(1 / speed, version("dnc"), "cpu")


if __name__ == "__main__":
    main(Sizes.parse(sys.argv[1]))
