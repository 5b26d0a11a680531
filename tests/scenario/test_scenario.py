import itertools
import tracemalloc
from typing import Any

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tomli_w
from hypothesis import given, settings
from numpy.testing import assert_array_equal
from pydantic import ValidationError

from potluck.errors import PotluckError
from potluck.game import OBSERVATIONS
from potluck.mechanisms import MECHANISMS
from potluck.scenario import (
    PRESETS,
    FederationConfig,
    Scenario,
    mechanism_of,
    parse,
    preset,
    render,
)

PAPER = render(preset("paper"))


def positive() -> st.SearchStrategy[float]:
    return st.floats(1e-6, 1e6, allow_nan=False, allow_infinity=False)


Plain = dict[str, Any]


def sources(redrawn: bool) -> st.SearchStrategy[Plain]:
    tasks = st.sampled_from(["digits", "fmnist", "cifar10", 'folder:a "b".npz'])
    real = st.fixed_dictionaries(
        {
            "source": st.just("fedavg"),
            "task": tasks,
            "model": st.sampled_from(["logistic", "mlp", "cnn"]),
            "learning_rate": positive(),
            "partition": st.sampled_from(["iid", "dirichlet", "quantity", "natural"]),
            "held_out": st.integers(1, 10_000),
            "concentration": positive(),
            "dynamics": st.just("static") if redrawn else st.sampled_from(["static", "redraw", "stream"]),
        }
    )
    curve = st.fixed_dictionaries({"source": st.just("curve"), "scale": positive(), "exponent": positive()})
    return st.one_of(curve, real)


def mechanisms(silos: int) -> st.SearchStrategy[Plain]:
    """Every kind, with options."""

    def kind(name: str, **options: st.SearchStrategy[Any]) -> st.SearchStrategy[Plain]:
        return st.fixed_dictionaries({"kind": st.just(name), **options})

    each = st.lists(positive(), min_size=silos, max_size=silos)
    rule = {"schedule": st.sampled_from(["gain", "constant", "printed"]), "smoothing": st.floats(0, 0.99)}
    compared = {"basis": st.sampled_from(["fraction", "samples"]), "unit": positive(), **rule}
    return st.one_of(
        kind("none"),
        kind("redistribution", intensity=positive(), **compared),
        kind("per-silo", intensity=st.one_of(positive(), each), **compared),
        kind("cost-sharing", costs=st.one_of(st.none(), each), profits=each),
        kind("proportional", pot=positive()),
    )


@st.composite
def descriptions(draw: st.DrawFn) -> Plain:
    count = draw(st.integers(2, 12))
    drawn = st.one_of(
        positive(),
        st.lists(positive(), min_size=count, max_size=count),
        st.fixed_dictionaries({"mean": positive(), "deviation": positive()}),
    )
    silos: Plain = {
        "count": count,
        "profit": draw(drawn),
        "energy": draw(drawn),
        "communication": draw(drawn),
        "samples": draw(st.floats(1, 1e6)),
        "redraw": draw(st.sampled_from([[], ["communication"], ["communication", "samples"]])),
        "drawn": draw(st.sampled_from(["run", "episode"])),
    }
    return {
        "energy_price": draw(st.floats(1e-6, 1e3)),
        "silos": silos,
        "mechanism": draw(mechanisms(count)),
        "precision": draw(sources("samples" in silos["redraw"])),
        "observation": draw(st.lists(st.sampled_from(sorted(OBSERVATIONS)), min_size=1, max_size=7, unique=True)),
    }


@given(descriptions())
def test_a_scenario_survives_toml(described: Plain) -> None:
    scenario = Scenario.model_validate(described)
    assert parse(render(scenario)) == scenario


@settings(max_examples=50)
@given(descriptions(), st.integers(0, 2**31))
def test_terms_are_positive_and_one_per_silo(described: Plain, seed: int) -> None:
    scenario = Scenario.model_validate(described)
    for leaf in jax.tree.leaves(scenario.draw(jax.random.key(seed))):
        assert leaf.shape == (scenario.silos.count,)
        assert bool(jnp.all(leaf > 0) & jnp.all(jnp.isfinite(leaf)))


@pytest.mark.parametrize("name", PRESETS)
def test_presets_survive_toml_and_draw(name: str) -> None:
    assert parse(render(preset(name))) == preset(name)
    assert preset(name).draw(jax.random.key(0)).profit.shape == (4,)


def test_presets_differ_as_their_names_say() -> None:
    prices = {name: preset(name).energy_price for name in PRESETS}
    assert prices["paper"] == 0.0025
    assert prices["dilemma"] == 0.02
    assert prices["literal"] == 1.0
    assert preset("lineage").history == 5
    assert preset("lineage").horizon == 400
    key = jax.random.key(0)
    percent, literal = preset("percent").draw(key), preset("literal").draw(key)
    assert_array_equal(percent.profit, 100 * literal.profit)
    assert np.allclose(preset("per-thousand").draw(key).energy * 1000, literal.energy, rtol=1e-5)


def test_terms_follow_their_distribution() -> None:
    many = preset("paper").model_copy(update={"silos": preset("paper").silos.model_copy(update={"count": 4000})})
    terms = many.draw(jax.random.key(0))
    assert abs(float(terms.profit.mean()) - 1000) < 1
    assert abs(float(terms.samples.std()) - 50) < 2
    assert bool(jnp.all(terms.samples == jnp.round(terms.samples)))


def test_same_seed_same_terms_and_another_seed_others() -> None:
    scenario = preset("paper")
    first, again, other = (scenario.draw(jax.random.key(seed)) for seed in (7, 7, 8))
    for a, b, c in zip(*map(jax.tree.leaves, (first, again, other)), strict=True):
        assert_array_equal(a, b)
        assert bool(jnp.any(a != c))


def test_only_what_is_named_is_drawn_anew() -> None:
    scenario = preset("paper")
    terms = scenario.draw(jax.random.key(0))
    later = scenario.terms.next(terms, jax.random.key(1))
    assert bool(jnp.all(later.communication != terms.communication))
    assert_array_equal(later.samples, terms.samples)
    both = scenario.model_copy(
        update={"silos": scenario.silos.model_copy(update={"redraw": ("communication", "samples")})}
    )
    assert bool(jnp.any(both.terms.next(terms, jax.random.key(1)).samples != terms.samples))


def test_a_scenario_is_frozen() -> None:
    with pytest.raises(ValidationError):
        preset("paper").seed = 3  # type: ignore[misc]


NORMAL = "{ mean = 1000.0, deviation = 10.0 }"
MISTAKES = [
    ("count = 4", "count = 1", "silos.count must be at least 2, got 1 (number of silos N)"),
    ("count = 4", "count = 4.5", "silos.count must be a whole number"),
    ("count = 4", "counts = 4", "silos.counts is not a known key; known here: count, profit"),
    ("[silos]", "[silo]", "silo is not a known key; known here: seed, horizon"),
    (NORMAL, "{ mean = -3, deviation = 1 }", "silos.profit.mean must be positive, got -3 (p, money per unit"),
    (NORMAL, "{ mean = 3, deviation = -1 }", "silos.profit.deviation must be at least 0"),
    (
        NORMAL,
        "{ mean = 3, deviation = 1, skew = 2 }",
        "silos.profit.skew is not a known key; known here: mean, deviation",
    ),
    (NORMAL, "0", "silos.profit must be positive, got 0"),
    (NORMAL, "nan", "silos.profit must be a finite number"),
    (NORMAL, '"much"', "silos.profit must be a number"),
    (NORMAL, "[1, 2]", "silos.profit must list one number per silo: 4 needed, got 2"),
    (NORMAL, "[1, 2, -3, 4]", "silos.profit.2 must be positive, got -3"),
    ("intensity = 5.0", "intensity = -1", "mechanism.intensity must be at least 0"),
    ("intensity = 5.0", "intensity = inf", "mechanism.intensity must be a finite number"),
    ("intensity = 5.0", "intensity = [[0, 1], [2, 0]]", "mechanism.intensity must be symmetric"),
    ("intensity = 5.0", "intensity = [[0, 1], [1]]", "mechanism.intensity must be a square matrix"),
    (
        "intensity = 5.0",
        "intensity = [[0, 1], [1, 0]]",
        "mechanism.intensity must have one row per silo: 4 needed, got 2",
    ),
    ('schedule = "constant"', 'schedule = "best"', "mechanism.schedule must be 'gain', 'constant' or 'printed'"),
    (
        'schedule = "constant"',
        'rule = "gain"',
        "mechanism.rule is not a known key; known here: kind, basis, unit, schedule, smoothing, intensity",
    ),
    ('kind = "redistribution"', 'kind = "fair"', "mechanism.kind must be one of redistribution, none, per-silo"),
    ('kind = "redistribution"', "kind = 3", "mechanism.kind must be one of redistribution, none, per-silo"),
    ('kind = "redistribution"', 'kind = "none"', "mechanism.basis is not a known key; known here: kind (and 4 more)"),
    ("[precision]", '[schedule]\nrule = "gain"\n[precision]', "schedule is no table of its own: write schedule"),
    ("ceiling = 0.8641", "ceiling = 0.05", "precision.ceiling must exceed initial (0.1), got 0.05"),
    ("discount = 0.95", "discount = 1.5", "discount must be at most 1"),
    ("energy_price = 0.0025", "", "energy_price is missing (money per unit of energy, κ)"),
    ("seed = 0", "seed = -1", "seed must be at least 0"),
    ("[silos]", "[silos", "not a TOML file"),
    ("seed = 0", "seed = " + "[" * 9000, "not a TOML file"),
    ("seed = 0", "seed = " + "9" * 5000, "not a TOML file"),
    ("seed = 0", ".".join("a" * 8) + " = 1", "a is not a known key"),
    ("seed = 0", ".".join("a" * 900) + " = 1", "not a TOML file that can be read: it is nested too deeply"),
    (NORMAL, "5e-324", "silos.profit must be at least 1e-12, got 4.94066e-324"),
    ("unit = 2000.0", "unit = 5e-324", "mechanism.unit must be at least 1e-06, got 5e-324"),
    ("scale = 224.8", "scale = 5e-324", "precision.scale must be at least 1e-12, got 4.94066e-324"),
    ('drawn = "run"', 'drawn = "slot"', "silos.drawn must be 'run' or 'episode', got 'slot' (terms once for a run"),
    ('source = "curve"', 'source = "real"', "precision.source must be one of 'curve', 'fedavg', got 'real'"),
    ('source = "curve"', "source = 3", "precision.source must be one of 'curve', 'fedavg', got '3'"),
    ('["others", "c', '["other", "c', "observation must name others, communication, signal, precision, own_"),
    ('["others", "c', '[1, "c', "observation.0 must be text in quotes, got 1 (what a silo sees"),
    ("[precision]", "[observation]\nslot = true\n[precision]", "not a TOML file"),
    ("energy_price = 0.0025", "energy_price = 1e308", "energy_price must be at most 1e+12"),
    ("horizon = 30", "horizon = 1000000", "horizon must be at most 10000"),
    ("seed = 0", "seed = 2020-02-02", "seed must be a whole number, got 2020-02-02"),
]


@pytest.mark.parametrize(("right", "wrong", "message"), MISTAKES)
def test_a_mistake_is_named_in_one_line(right: str, wrong: str, message: str) -> None:
    assert right in PAPER
    with pytest.raises(PotluckError) as caught:
        parse(PAPER.replace(right, wrong, 1), "my.toml")
    assert f"my.toml: {message}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bill_that_no_number_carries_is_named() -> None:
    text = PAPER.replace("energy = { mean = 4.0, deviation = 0.2 }", "energy = 1e12").replace("0.0025", "1e6")
    with pytest.raises(
        PotluckError, match=r"^scenario: energy_price must be lower: .* cost 2.3e\+21 .*1e\+18 is the most"
    ):
        parse(text)


@pytest.mark.parametrize("table", ["", "silos", "silos.profit", "mechanism", "precision"])
@pytest.mark.parametrize("name", ["curve", "fedavg", "normal", "constant", "list", "matrix", "uniform", "vector"])
def test_an_unknown_key_is_named_whatever_its_name(table: str, name: str) -> None:
    """Names that are also pydantic's, for the branches of what may be written in several forms."""
    described: Plain = preset("paper").model_dump(mode="json")
    at = described
    for step in table.split(".") if table else ():
        at = at[step]
    at[name] = 1
    with pytest.raises(PotluckError, match=rf"^scenario: {f'{table}.' if table else ''}{name} is not a known key;"):
        parse(tomli_w.dumps(without_none(described)))


def without_none(value: Any) -> Any:
    return {k: without_none(v) for k, v in value.items() if v is not None} if isinstance(value, dict) else value


@pytest.mark.parametrize(
    "text",
    [
        ".".join("a" * 3000) + " = 1",
        "[" + " . ".join("a" * 3000) + "]",
        "x = { " + ".".join(["'a'", '"b"', r'"\""', "c"] * 750) + " = 1 }",
    ],
)
def test_a_key_of_thousands_of_parts_costs_no_memory(text: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(PotluckError, match="nested too deeply"):
            parse(text)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


REAL = render(preset("paper").model_copy(update={"precision": FederationConfig(model="mlp")}))
REAL_MISTAKES = [
    (
        'task = "digits"',
        'task = "mnist"',
        "precision.task must be one of digits, fmnist, cifar10, folder:PATH.npz, got 'mnist'",
    ),
    ('task = "digits"', "task = 3", "precision.task must be text in quotes, got 3"),
    (
        'model = "mlp"',
        'model = "lstm"',
        "precision.model must be one of logistic, mlp, cnn, got 'lstm'",
    ),
    ('model = "mlp"', 'models = "mlp"', "precision.models is not a known key; known here: source, task, model"),
    (
        "learning_rate = 0.05",
        "learning_rate = 0",
        "precision.learning_rate must be positive, got 0 (of the silos' optimiser)",
    ),
    ("held_out = 2000", "held_out = 0", "precision.held_out must be at least 1, got 0"),
    (
        'partition = "iid"',
        'partition = "skew"',
        "precision.partition must be 'iid', 'dirichlet', 'quantity' or 'natural'",
    ),
    ('source = "fedavg"', 'source = "curve"', "precision.task is not a known key; known here: source, initial"),
    (
        'dynamics = "static"',
        'dynamics = "flow"',
        "precision.dynamics must be 'static', 'redraw' or 'stream', got 'flow' (local sets stay, are drawn anew",
    ),
]


@pytest.mark.parametrize(("right", "wrong", "message"), REAL_MISTAKES)
def test_a_mistake_in_real_training_is_named_in_one_line(right: str, wrong: str, message: str) -> None:
    assert right in REAL
    with pytest.raises(PotluckError) as caught:
        parse(REAL.replace(right, wrong, 1), "my.toml")
    assert f"my.toml: {message}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_data_changes_in_one_way_only() -> None:
    text = REAL.replace('dynamics = "static"', 'dynamics = "stream"')
    assert parse(text).precision == FederationConfig(model="mlp", dynamics="stream")
    with pytest.raises(PotluckError, match=r"precision\.dynamics must be static where silos\.redraw names samples"):
        parse(text.replace('redraw = ["communication"]', 'redraw = ["samples"]'))


@pytest.mark.parametrize("wrong", ["3", "[]", '"curve"', "true"])
def test_a_precision_that_is_no_table_is_named(wrong: str) -> None:
    rest = PAPER[: PAPER.index("[precision]")].rpartition("\n#")[0]
    with pytest.raises(PotluckError, match=r"precision must be a table such as \[precision\]"):
        parse(f"precision = {wrong}\n{rest}")


def test_an_unknown_preset_lists_the_known_ones() -> None:
    with pytest.raises(PotluckError, match="paper, dilemma, literal"):
        preset("papre")


def test_a_seed_means_the_same_silos_in_any_precision() -> None:
    scenario = preset("paper")
    with jax.enable_x64(True):
        double = scenario.draw(jax.random.key(3))
        assert double.profit.dtype == jnp.float64
    with jax.enable_x64(False):
        single = scenario.draw(jax.random.key(3))
        assert single.profit.dtype == jnp.float32
    for one, other in zip(jax.tree.leaves(double), jax.tree.leaves(single), strict=True):
        assert_array_equal(np.asarray(one, np.float32), one)
        assert_array_equal(one, other)


PER_SILO = render(preset("paper").model_copy(update={"mechanism": mechanism_of("per-silo", intensity=(1, 2, 3, 4))}))
DECLARED = render(preset("paper").model_copy(update={"mechanism": mechanism_of("cost-sharing", costs=(1, 2, 3, 4))}))


@pytest.mark.parametrize(
    ("text", "wrong", "message"),
    [
        (PER_SILO, "[1.0]", "mechanism.intensity must list one number per silo: 4 needed, got 1"),
        (PER_SILO, "[1, 2, 3, -4]", "mechanism.intensity.3 must be at least 0, got -4 (α0, money per unit"),
        (DECLARED, "[1.0]", "mechanism.costs must list one number per silo: 4 needed, got 1"),
        (DECLARED, '"honest"', "mechanism.costs must be a list, got 'honest' (c, declared costs"),
    ],
)
def test_a_mistake_in_a_mechanism_is_named_in_one_line(text: str, wrong: str, message: str) -> None:
    with pytest.raises(PotluckError) as caught:
        parse(text.replace("[1.0, 2.0, 3.0, 4.0]", wrong))
    assert message in str(caught.value)


def test_a_mechanism_from_python_is_checked_too() -> None:
    with pytest.raises(PotluckError, match=r"^mechanism\.pot must be at least 0, got -1.0 \(money that is shared"):
        mechanism_of("proportional", pot=-1.0)
    with pytest.raises(PotluckError, match=r"^mechanism must be one of redistribution, none"):
        mechanism_of("fair")


@pytest.mark.parametrize("kind", MECHANISMS)
def test_a_rendered_scenario_explains_its_mechanism(kind: str) -> None:
    text = render(preset("paper").model_copy(update={"mechanism": mechanism_of(kind)}))
    table = text.partition("[mechanism]")[2].partition("[precision]")[0].splitlines()
    assert f'kind = "{kind}"' in table
    explained = [line for line, after in itertools.pairwise(table) if " = " in after]
    assert all(line.startswith("# ") and "None" not in line for line in explained)
    assert (MECHANISMS[kind].__doc__ or "") in text
