"""The race between memories."""

from collections.abc import Callable

import pytest

from potluck.studies.benchmarks.memory import OURS, race
from potluck.studies.benchmarks.peers import Absent, parse, run
from potluck.studies.benchmarks.sequences import Sizes, Timing


def engine(times: list[float], log: list[float]) -> Callable[[Sizes], Timing]:
    """Answers with one time after another, and writes each down."""
    left = iter(times)

    def answer(sizes: Sizes) -> Timing:
        del sizes
        log.append(next(left))
        return Timing(log[-1], "1", "cpu")

    return answer


def test_engines_take_turns_and_the_best_run_counts() -> None:
    log: list[float] = []
    rows = race({"a": engine([5, 4, 6], log), "b": engine([50, 40, 20], log)}, Sizes())
    assert log == [5, 50, 4, 40, 6, 20]
    assert [(row.engine, row.milliseconds, row.ratio) for row in rows] == [("a", 4, 1), ("b", 20, 5)]
    assert (rows[0].batch, rows[0].steps, rows[0].words, rows[0].width, rows[0].heads) == (16, 16, 16, 16, 4)


def test_an_engine_that_cannot_run_is_asked_once_and_says_why() -> None:
    asked: list[Sizes] = []

    def absent(sizes: Sizes) -> Absent:
        asked.append(sizes)
        return Absent("not installed")

    rows = race({"a": engine([5, 4, 6], []), "b": absent}, Sizes())
    assert len(asked) == 1
    assert (rows[1].milliseconds, rows[1].ratio, rows[1].note) == (None, None, "not installed")


def test_nobody_is_compared_with_an_engine_that_did_not_run() -> None:
    rows = race({"a": lambda _: Absent("out of luck"), "b": engine([5, 4, 6], [])}, Sizes())
    assert (rows[1].milliseconds, rows[1].ratio) == (4, None)


@pytest.mark.parametrize("words", ["", "hello", "[1]", '{"milliseconds": 3}'])
def test_what_is_no_answer_is_quoted(words: str) -> None:
    answer = parse(words, Timing)
    assert isinstance(answer, Absent)
    assert "no answer" in answer.reason


def test_sizes_survive_the_command_line() -> None:
    assert Sizes.parse(Sizes(words=3).text()) == Sizes(words=3)


@pytest.mark.slow
def test_our_memory_answers_as_its_rivals_do() -> None:
    sizes = Sizes(batch=2, steps=3, words=4, width=4, heads=1, inputs=2, hidden=4)
    answer = run(OURS, sizes.text(), Timing)
    assert isinstance(answer, Timing), answer
    assert answer.milliseconds > 0
