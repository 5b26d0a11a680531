"""FedAvg as most people would write it: silos one after another, a module, autograd and an optimiser."""

import sys
from copy import deepcopy

import torch
from torch import nn

from potluck.studies.benchmarks.work import BATCH, LEARNING_RATE, Work, report, timed

from .threads import at_best_threads


def mlp(work: Work) -> nn.Sequential:
    """The network with the work's initial weights."""
    pixels, hidden = work.w1.shape
    model = nn.Sequential(nn.Linear(pixels, hidden), nn.ReLU(), nn.Linear(hidden, work.w2.shape[1]))
    initial = (work.w1.T, work.b1, work.w2.T, work.b2)
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), initial, strict=True):
            parameter.copy_(torch.from_numpy(value))
    return model


def train(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    """One epoch of mini-batch SGD."""
    optimiser = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, fused=True)
    for batch_x, batch_y in zip(x.split(BATCH), y.split(BATCH), strict=True):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(batch_x), batch_y).backward()
        optimiser.step()


@torch.no_grad()
def evaluate(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    """Share of the test set that is classified correctly."""
    return (model(x).argmax(1) == y).float().mean().item()


def main(path: str) -> None:
    work = Work.load(path)
    x, y, x_test, y_test = (torch.from_numpy(array) for array in (work.x, work.y, work.x_test, work.y_test))

    def play(rounds: int) -> float:
        model, accuracy = mlp(work), 0.0
        for _ in range(rounds):
            silos = [deepcopy(model) for _ in x]
            for silo, silo_x, silo_y in zip(silos, x, y, strict=True):
                train(silo, silo_x, silo_y)
            with torch.no_grad():
                for parameter, *trained in zip(model.parameters(), *(s.parameters() for s in silos), strict=True):
                    parameter.copy_(torch.stack(trained).mean(0))  # every silo has as many samples
            accuracy = evaluate(model, x_test, y_test)
        return accuracy

    report("torch loop", torch.__version__, *at_best_threads(lambda: timed(play)))


if __name__ == "__main__":
    main(sys.argv[1])
