"""FedAvg written by hand for speed in torch: all silos in one batched product, the gradient spelled out."""

import sys

import torch

from potluck.studies.benchmarks.work import BATCH, LEARNING_RATE, Work, report, timed

from .threads import at_best_threads


@torch.no_grad()
def main(path: str) -> None:
    work = Work.load(path)
    x_test, y_test = torch.from_numpy(work.x_test), torch.from_numpy(work.y_test)
    silos, samples, pixels = work.x.shape
    steps = samples // BATCH
    x = torch.from_numpy(work.x).view(silos, steps, BATCH, pixels).transpose(0, 1).contiguous()
    y = torch.from_numpy(work.y).view(silos, steps, BATCH, 1).transpose(0, 1).contiguous()
    rows = -torch.ones(1, 1, 1).expand(silos, BATCH, 1)
    initial = [torch.from_numpy(w) for w in (work.w1, work.b1[None], work.w2, work.b2[None])]

    def play(rounds: int) -> float:
        model, accuracy = initial, 0.0
        for _ in range(rounds):
            w1, b1, w2, b2 = (w.expand(silos, *w.shape).clone() for w in model)
            for batch, labels in zip(x, y, strict=True):
                hidden = torch.baddbmm(b1, batch, w1).relu_()
                error = torch.baddbmm(b2, hidden, w2).softmax(2).scatter_add_(2, labels, rows)
                back = torch.bmm(error, w2.mT).mul_(hidden.sign())
                step = -LEARNING_RATE / BATCH
                w2.baddbmm_(hidden.mT, error, alpha=step)
                b2.add_(error.sum(1, keepdim=True), alpha=step)
                w1.baddbmm_(batch.mT, back, alpha=step)
                b1.add_(back.sum(1, keepdim=True), alpha=step)
            model = [w.mean(0) for w in (w1, b1, w2, b2)]  # every silo has as many samples
            logits = (x_test @ model[0] + model[1]).relu_() @ model[2] + model[3]
            accuracy = (logits.argmax(1) == y_test).float().mean().item()
        return accuracy

    report("torch batched", torch.__version__, *at_best_threads(lambda: timed(play)))


if __name__ == "__main__":
    main(sys.argv[1])
