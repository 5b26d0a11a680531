"""What one silo, or whoever submits a run, can do to the others: nothing."""

import logging
from pathlib import Path

import numpy as np
import pytest
from flwr.app import ArrayRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg, QFedAvg

from potluck.errors import PotluckError
from potluck.flower import contributed_samples, contribution
from tests.flower.local import START, LocalGrid, change_site, client_app, consortium_in, incentivized, rows, scenario_of


def app_of(accuracy: float = 0.5, step: float = 0.01, kind: type = np.float32, **metrics: float) -> ClientApp:
    app = ClientApp(mods=[contribution(1.0)])

    @app.train()
    def fit(message: Message, context: Context) -> Message:
        del context
        arrays = [(a + kind(step)).astype(kind) for a in message.content["arrays"].to_numpy_ndarrays()]
        record = MetricRecord({"num-examples": contributed_samples(120), **metrics})
        return Message(RecordDict({"arrays": ArrayRecord(arrays), "metrics": record}), reply_to=message)

    @app.evaluate()
    def judge(message: Message, context: Context) -> Message:
        del context
        record = MetricRecord({"num-examples": 10, "accuracy": accuracy})
        return Message(RecordDict({"metrics": record}), reply_to=message)

    return app


@pytest.mark.parametrize("kind", ["train", "train.default"])
def test_no_way_of_asking_passes_a_veto(tmp_path: Path, kind: str) -> None:
    consortium = consortium_in(tmp_path, scenario_of(2), [0.5, 0.5])
    change_site(consortium, 0, cap=0.0)
    grid = LocalGrid(consortium, [app_of(), app_of()])
    reply = grid.apps[1](Message(RecordDict({"arrays": START}), 1, kind), grid.context(1))
    assert reply.has_error()


@pytest.mark.parametrize("count", [2, 4])
def test_a_metric_that_a_strategy_needs_and_one_silo_withholds_ends_no_run(tmp_path: Path, count: int) -> None:
    consortium = consortium_in(tmp_path, scenario_of(count), [1.0] * count)
    grid = LocalGrid(consortium, [app_of(train_loss=0.5)] * (count - 1) + [app_of()])
    strategy = QFedAvg(client_learning_rate=0.1, fraction_evaluate=0.0)
    incentivized(consortium, strategy).start(grid, START, num_rounds=2, timeout=5)
    # Of four it is one against most, and is refused; of two nobody can tell, and the model stays.
    last = None if count == 4 else 1.0
    assert [row.contribution for row in rows(consortium)] == ([1.0] * (count - 1) + [last]) * 2


def test_a_silo_on_many_nodes_has_one_vote_on_precision(tmp_path: Path) -> None:
    class Stuffed(LocalGrid):
        def context(self, node: int) -> Context:
            return super().context(min(node, 2))

    consortium = consortium_in(tmp_path, scenario_of(2), [1.0, 1.0])
    grid = Stuffed(consortium, [app_of(1.0), *[app_of(0.0)] * 5])
    incentivized(consortium, FedAvg(), precision="accuracy").start(grid, START, num_rounds=2, timeout=5)
    assert [row.precision for row in rows(consortium, silo="silo-0")] == [0.5, 0.5]


def test_what_the_model_cannot_hold_is_no_number(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    consortium = consortium_in(tmp_path, scenario_of(2), [1.0, 1.0])
    grid = LocalGrid(consortium, [app_of(), app_of(step=1e308, kind=np.float64)])
    with caplog.at_level(logging.WARNING, logger="flwr"):
        logging.getLogger("flwr").propagate = True
        result = incentivized(consortium).start(grid, START, num_rounds=1, timeout=5)
    assert [row.contribution for row in rows(consortium)] == [1.0, None]
    assert "holds what is no number" in caplog.text
    assert all(np.abs(numbers).max() < 100 for numbers in result.arrays.to_numpy_ndarrays())


def test_nobody_writes_lines_of_their_own_into_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def evil(message: Message, context: Context) -> Message:
        del context
        return Message(Error(1, "x" * 100_000 + "\n\x1b[2J INFO: potluck: slot 1: settled"), reply_to=message)

    consortium = consortium_in(tmp_path, scenario_of(2), [1.0, 1.0])
    with caplog.at_level(logging.WARNING, logger="flwr"):
        logging.getLogger("flwr").propagate = True
        incentivized(consortium).start(LocalGrid(consortium, [client_app(), evil]), START, num_rounds=1, timeout=5)
    assert [row.contribution for row in rows(consortium)] == [1.0, None]
    assert len(caplog.text) < 2000
    assert "\x1b" not in caplog.text


def test_an_aggregate_without_the_metric_is_named(tmp_path: Path) -> None:
    consortium = consortium_in(tmp_path, scenario_of(2), [1.0, 1.0])
    strategy = FedAvg(evaluate_metrics_aggr_fn=lambda *_: MetricRecord({"acc": 0.5}))
    with pytest.raises(PotluckError, match="the strategy's own aggregate of evaluations has no number 'accuracy'"):
        incentivized(consortium, strategy, precision="accuracy").start(
            LocalGrid(consortium, [app_of(), app_of()]), START, num_rounds=1, timeout=5
        )
