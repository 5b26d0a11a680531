"""pfl-research: its own algorithm, simulated backend and central evaluation, over torch tensors made beforehand."""

import sys
from importlib.metadata import version
from time import perf_counter
from typing import Any

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.callback.central_evaluation import CentralEvaluationCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import MinimizeReuseUserSampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics, StringMetricName, Weighted
from pfl.model.pytorch import PyTorchModel
from torch import nn

from potluck.studies.benchmarks.work import BATCH, LEARNING_RATE, ROUNDS, WARM_UP, Work, report

from .threads import at_best_threads
from .torch_loop import mlp


class Classifier(nn.Module):
    """The network with the two methods pfl asks of it."""

    def __init__(self, work: Work) -> None:
        super().__init__()
        self.mlp = mlp(work)

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(self.mlp(x), y)

    @torch.no_grad()
    def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
        return {"accuracy": Weighted((self.mlp(x).argmax(1) == y).sum().item(), len(y))}


class Clock(TrainingProcessCallback):
    """Starts after the warm-up, from the initial weights again; its last stop is the last round's evaluation.

    pfl evaluates on every silo in its first iteration whatever it is told: the warm-up spares it that.
    """

    def __init__(self, model: PyTorchModel) -> None:
        self.initial = model.get_parameters()
        self.start = self.stop = self.accuracy = 0.0

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        self.stop = perf_counter()
        if central_iteration == WARM_UP - 1:
            model.set_parameters(self.initial)
            self.start = perf_counter()
        if central_iteration == WARM_UP + ROUNDS - 1:
            self.accuracy = aggregate_metrics[StringMetricName("Central val | accuracy")].overall_value
        return False, Metrics()


def play(work: Work) -> tuple[float, float]:
    """(rounds/s, accuracy) of one training."""
    module = Classifier(work)
    model = PyTorchModel(
        module,
        local_optimizer_create=lambda parameters, lr: torch.optim.SGD(parameters, lr=lr, fused=True),
        central_optimizer=torch.optim.SGD(module.parameters(), lr=1.0),
    )
    silos = [
        Dataset((torch.from_numpy(x), torch.from_numpy(y)), user_id=str(silo))
        for silo, (x, y) in enumerate(zip(work.x, work.y, strict=True))
    ]
    sampler = MinimizeReuseUserSampler(list(range(len(silos))))
    backend = SimulatedBackend(
        training_data=FederatedDataset(silos.__getitem__, sampler),
        val_data=None,
        postprocessors=[WeightByDatapoints()],
    )
    clock = Clock(model)
    test = Dataset((torch.from_numpy(work.x_test), torch.from_numpy(work.y_test)))
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=WARM_UP + ROUNDS,
            evaluation_frequency=WARM_UP + ROUNDS,
            train_cohort_size=len(silos),
            val_cohort_size=None,
        ),
        backend,
        model,
        NNTrainHyperParams(local_num_epochs=1, local_learning_rate=LEARNING_RATE, local_batch_size=BATCH),
        NNEvalHyperParams(local_batch_size=None),
        callbacks=[CentralEvaluationCallback(test), clock],
        send_metrics_to_platform=False,
    )
    return ROUNDS / (clock.stop - clock.start), clock.accuracy


def main(path: str) -> None:
    work = Work.load(path)
    report("pfl-research", version("pfl"), *at_best_threads(lambda: play(work)))


if __name__ == "__main__":
    main(sys.argv[1])
