"""The engine against FedAvg written a second time, and the properties every slot must have."""

import dataclasses
import hashlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh
from jaxtyping import Array, PyTree
from numpy.testing import assert_allclose, assert_array_equal

from potluck.federation import OPTIMISERS, FedAvg, run, run_games, runs, samples_of, shard
from potluck.federation.dynamics import Static, Window
from potluck.federation.fedavg import NOBODY
from potluck.federation.models import CNN, patches
from tests.federation import reference
from tests.federation.conftest import fashion, federation, kernel, marginals, pictures

UNEQUAL = jnp.array([1.0, 0.37, 0.0, 0.1])


def leaves(tree: object) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def inputs_first(model: Any) -> list[np.ndarray]:
    return [np.asarray(part) for layer in model.layers for part in (layer.weight.T, layer.bias)]


def same_bits(a: object, b: object) -> None:
    for left, right in zip(leaves(a), leaves(b), strict=True):
        assert_array_equal(left, right)


def visits(fed: FedAvg, contributions: jax.Array, key: jax.Array, window: Window) -> list[list[np.ndarray]]:
    samples = samples_of(contributions, window.size)
    orders = []
    for n, count in enumerate(samples):
        silo, local = (jax.tree.map(lambda a, n=n: a[n], tree) for tree in (fed.silos, window))
        drawn = np.asarray(fed.draw(silo, count, jax.random.fold_in(key, n), local))
        orders.append([order[: int(count)] for order in drawn])
    return orders


def check_against_reference(
    fed: FedAvg,
    images: np.ndarray,
    gradient: reference.Gradient,
    unpack: Callable[[Any], list[np.ndarray]],
    tolerance: float,
) -> None:
    """Five rounds by both, contributions unequal and changing."""
    labels = np.asarray(fed.silos.labels)
    silos = [((images[n].astype(float) - fed.centre) / fed.deviation, labels[n]) for n in range(len(labels))]
    model = fed.init_model(jax.random.key(1))
    start = expected = [w.astype(float) for w in unpack(model.weights)]
    window = Static().init(fed.silos.pool, jax.random.key(0))
    slot_of = runs.compiled(lambda *slot: fed.round(*slot), fed)
    for slot in range(5):
        key = jax.random.key(100 + slot)
        contributions = jnp.roll(UNEQUAL, slot)
        order = visits(fed, contributions, key, window)
        pull = 0.0 if fed.proximal is None else float(fed.proximal)
        proportional = fed.partial_batches == "proportional"
        expected = reference.fedavg_round(
            expected, silos, order, gradient, float(fed.learning_rate), fed.batch_size, pull, proportional
        )
        model, _ = slot_of(model, contributions, key)
    for ours, theirs, before in zip(unpack(model.weights), expected, start, strict=True):
        assert_allclose(ours, theirs, atol=tolerance, rtol=0)
        assert np.abs(theirs - before).max() > 100 * tolerance  # there was something to get wrong


@pytest.mark.parametrize(
    ("epochs", "proximal", "partial_batches"), [(1, 0.0, "full"), (2, 0.5, "full"), (1, 0.5, "proportional")]
)
def test_mlp_agrees_with_float64_numpy_after_five_rounds_of_unequal_contributions(
    epochs: int, proximal: float, partial_batches: str
) -> None:
    fed = federation(epochs=epochs, proximal=proximal, partial_batches=partial_batches, seed=3)
    check_against_reference(fed, np.asarray(fed.silos.features), reference.mlp_gradient, inputs_first, 1e-5)


def test_library_products_agree_with_float64_numpy_too() -> None:
    """Layers as large as Fashion-MNIST's are multiplied by another library than the digits'."""
    fed = fashion()
    check_against_reference(fed, np.asarray(fed.silos.features), reference.mlp_gradient, inputs_first, 1e-5)


@pytest.mark.parametrize("given", [True, False])
def test_a_round_trains_on_the_current_set_alone(given: bool) -> None:
    """Against the reference again, with local sets that start inside their pools, drawn outside or by the round."""
    fed = federation(samples=100, dynamics="redraw", partial_batches="full", seed=3)
    key, model = jax.random.key(7), fed.init_model(jax.random.key(1))
    window = fed.dynamics.init(fed.silos.pool, jax.random.fold_in(key, NOBODY))
    assert (np.asarray(window.start) > 0).all()
    assert (np.asarray(window.size) < np.asarray(fed.silos.pool)).all()
    order = visits(fed, jnp.ones(4), key, window)
    for rows, start, size in zip(order, window.start, window.size, strict=True):
        assert sorted(rows[0]) == sorted((int(start) + i) % 200 for i in range(int(size)))
    images, labels = np.asarray(fed.silos.features).astype(float), np.asarray(fed.silos.labels)
    silos = [((images[n] - fed.centre) / fed.deviation, labels[n]) for n in range(4)]
    start = [w.astype(float) for w in inputs_first(model.weights)]
    expected = reference.fedavg_round(start, silos, order, reference.mlp_gradient, 0.05, fed.batch_size)
    after, _ = eqx.filter_jit(fed.round)(model, jnp.ones(4), key, window if given else None)
    for ours, theirs in zip(inputs_first(after.weights), expected, strict=True):
        assert_allclose(ours, theirs, atol=1e-5, rtol=0)


def test_a_local_update_without_a_window_takes_no_sample_twice() -> None:
    fed = federation(samples=100, dynamics="redraw")
    silo = jax.tree.map(lambda a: a[0], fed.silos)
    weights, key = fed.init_model(jax.random.key(0)).weights, jax.random.key(1)
    most = fed.dynamics.bound(200)
    window = Window(start=jnp.array(0), size=jnp.array(most))
    update = eqx.filter_jit(fed.local_update)
    same_bits(update(weights, silo, jnp.array(200), key), update(weights, silo, jnp.array(most), key, window))


def test_cnn_agrees_with_a_direct_convolution_after_five_rounds() -> None:
    data = pictures(samples=240, side=16, channels=3)
    fed = federation(data, model="cnn", channels=(4, 6), samples=40, batch_size=15)
    # The silos hold patches; the reference convolves the images they were cut from.
    images = recover(np.asarray(fed.silos.features), data.images)

    def unpack(model: CNN) -> list[np.ndarray]:
        kernels = [part for layer in (model.first, model.second) for part in (kernel(layer), layer.bias)]
        return [np.asarray(part) for part in (*kernels, model.head.weight.T, model.head.bias)]

    check_against_reference(fed, images, reference.cnn_gradient, unpack, 1e-4)


def recover(stored: np.ndarray, images: np.ndarray) -> np.ndarray:
    """Find each stored sample's image by its corner patch."""
    corners = {patches(image)[0, 0].tobytes(): image for image in images}
    return np.stack([[corners[sample[0, 0].tobytes()] for sample in silo] for silo in stored])


def fingerprint(seed: int, large: bool) -> str:
    """SHA-256 of the weights, local sets and precision after four slots of a sharded game."""
    fed = fashion(seed) if large else federation(dynamics="redraw", seed=seed)
    source = shard(fed)
    start, *keys = jax.random.split(jax.random.key(seed), 5)
    state, reached, train = source.init(start), [], runs.compiled(lambda source, *slot: source.train(*slot), fed)
    for key in keys:
        state, measured = train(source, state, UNEQUAL, key)
        reached.append(measured.precision)
    return hashlib.sha256(b"".join(leaf.tobytes() for leaf in leaves((state, reached)))).hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize("large", [False, True], ids=["digits", "library products"])
def test_same_seed_same_bits_in_another_process(large: bool) -> None:
    here = fingerprint(5, large)
    script = f"from tests.federation.test_fedavg import fingerprint; print(fingerprint(5, {large}))"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, cwd=root)
    assert done.stdout.strip() == here, done.stderr
    assert fingerprint(6, large) != here


@pytest.mark.parametrize("task", ["digits", "folder"])
@pytest.mark.parametrize("dynamics", ["static", "redraw"])
def test_no_silo_owns_a_held_out_sample(task: str, dynamics: str, tmp_path: Path) -> None:
    if task == "folder":
        # every row is its own number in base 256, so that no two are alike
        rows = np.stack(np.divmod(np.arange(600), 256), axis=1).astype(np.uint8)
        np.savez(tmp_path / "mine.npz", X=rows, y=np.arange(600) % 3)
    fed = federation(
        task=f"folder:{tmp_path / 'mine.npz'}" if task == "folder" else task, model="logistic", dynamics=dynamics
    )
    owned = {
        sample.tobytes()
        for pool, size in zip(np.asarray(fed.silos.features), fed.silos.pool, strict=True)
        for sample in pool[: int(size)]
    }
    held_out = {sample.tobytes() for sample in np.asarray(fed.test.features)}
    assert len(owned) == int(fed.silos.pool.sum())
    assert len(held_out) == fed.test.size
    assert not owned & held_out


def test_nobody_contributes_and_the_model_stays_as_it_is() -> None:
    for options in ({}, {"aggregation": "fedavgm"}, {"optimiser": "adam", "proximal": 0.1}):
        fed = federation(**options)
        model = fed.init_model(jax.random.key(0))
        model, _ = eqx.filter_jit(fed.round)(model, jnp.ones(4), jax.random.key(1))
        after, _ = eqx.filter_jit(fed.round)(model, jnp.zeros(4), jax.random.key(2))
        same_bits(model, after)


def test_one_sample_is_enough_to_take_part() -> None:
    fed = federation()
    model = fed.init_model(jax.random.key(0))
    after, _ = eqx.filter_jit(fed.round)(model, jnp.array([1 / 350, 0.0, 0.0, 0.0]), jax.random.key(1))
    assert not np.array_equal(leaves(model)[0], leaves(after)[0])
    assert_array_equal(samples_of(jnp.array([1e-6, 0.0, 0.5, 1.0]), jnp.full(4, 350)), [1, 0, 175, 350])


def test_who_contributes_nothing_has_no_say() -> None:
    fed = federation()
    model = fed.init_model(jax.random.key(0))
    alone = jnp.array([0.0, 1.0, 0.0, 0.0])
    after, _ = eqx.filter_jit(fed.round)(model, alone, jax.random.key(1))
    silo = jax.tree.map(lambda a: a[1], fed.silos)
    local = eqx.filter_jit(fed.local_update)(
        model.weights, silo, jnp.array(350), jax.random.fold_in(jax.random.key(1), 1)
    )
    for ours, theirs in zip(leaves(after.weights), leaves(local), strict=True):
        assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize("optimise", ["sgd", "momentum", "adam"])
def test_a_silo_that_runs_out_of_batches_waits_unchanged(optimise: str) -> None:
    """Beside a silo with 14 steps, one with a single step ends where it would have ended alone."""
    fed = federation(optimiser=optimise, learning_rate=0.01, proximal=0.2)
    weights = fed.init_model(jax.random.key(0)).weights
    keys = jax.random.split(jax.random.key(1), 4)
    samples = jnp.array([350, 7, 0, 40])
    together = eqx.filter_jit(eqx.filter_vmap(fed.local_update, in_axes=(None, 0, 0, 0)))(
        weights, fed.silos, samples, keys
    )
    for n in range(4):
        silo = jax.tree.map(lambda a, n=n: a[n], fed.silos)
        alone = eqx.filter_jit(fed.local_update)(weights, silo, samples[n], keys[n])
        for ours, theirs in zip(leaves(together), leaves(alone), strict=True):
            assert_allclose(ours[n], theirs, atol=2e-6)


def test_games_side_by_side_are_the_games_one_by_one() -> None:
    fed = federation(dynamics="stream")
    keys = jax.random.split(jax.random.key(0), 3)
    plans = np.array([[1, 1, 1, 1], [0.5, 0.1, 0, 0], [0, 0, 0, 0]], np.float32)
    together = run_games(fed, plans, keys, 5)
    for game in range(3):
        alone = run(fed, plans[game], keys[game], 5)
        # Rounding may differ between batched and single products; a sample in 397 may tip over.
        assert_allclose(together.precision[game], alone.precision, atol=2.1 / 397)


@pytest.mark.parametrize(("cache", "together"), [(runs.CACHE_BYTES, 4), (100_000, 2)])
def test_a_prime_number_of_games_uses_every_device(cache: int, together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven games on two devices, all in step or two and two (a digits game's models take 38 kB)."""
    monkeypatch.setattr(runs, "CACHE_BYTES", cache)
    shapes = []
    inner = runs._run_games

    def watched(fed: FedAvg, plans: jax.Array, keys: jax.Array, mesh: Mesh, group: int) -> runs.Trace:
        shapes.append((len(plans), mesh.size, group))
        return inner(fed, plans, keys, mesh, group)

    monkeypatch.setattr(runs, "_run_games", watched)
    fed = federation()
    keys = jax.random.split(jax.random.key(0), 7)
    plans = np.linspace(0.1, 1, 28, dtype=np.float32).reshape(7, 4)
    games = run_games(fed, plans, keys, 3)
    assert shapes == [(8, 2, together)]
    assert games.precision.shape == (7, 3)
    for game in (0, 6):
        alone = run(fed, plans[game], keys[game], 3)
        assert_allclose(games.precision[game], alone.precision, atol=2.1 / 397)


def test_sharding_silos_over_devices_changes_nothing() -> None:
    assert len(jax.devices()) == 2  # set in conftest
    fed = federation(dynamics="redraw")
    parts = shard(fed)
    state = fed.init(jax.random.key(0))
    for slot in range(3):
        key = jax.random.key(slot)
        ours, measured = eqx.filter_jit(fed.train)(state, UNEQUAL, key, marginal=True)
        theirs, same = eqx.filter_jit(parts.train)(state, UNEQUAL, key, marginal=True)
        assert_allclose(measured.precision, same.precision, atol=1.1 / 397)
        assert_allclose(marginals(measured), marginals(same), atol=2.1 / 397)
        for a, b in zip(leaves(ours), leaves(theirs), strict=True):
            assert_allclose(a, b, atol=1e-6)
        state = ours


def test_marginal_precision_is_what_the_slot_would_have_reached_without_a_silo() -> None:
    """Against separate runs: silos train alone, so without n the others end where they did."""
    fed = federation()
    state, key = fed.init(jax.random.key(0)), jax.random.key(1)
    train = eqx.filter_jit(fed.train)
    after, measured = train(state, UNEQUAL, key, marginal=True)
    plain, same = train(state, UNEQUAL, key)
    same_bits(after, plain)
    assert same.marginal is None
    assert measured.precision == same.precision
    for n in range(4):
        _, without = train(state, UNEQUAL.at[n].set(0.0), key)
        assert_allclose(marginals(measured)[n], measured.precision - without.precision, atol=1.1 / 397)
    assert marginals(measured)[2] == 0  # it contributed nothing
    assert np.abs(marginals(measured)).max() > 0.02


def test_who_contributes_alone_is_worth_what_the_slot_gained() -> None:
    fed = federation(aggregation="fedadam")
    state = fed.init(jax.random.key(0))
    _, measured = eqx.filter_jit(fed.train)(state, jnp.array([0.0, 1.0, 0.0, 0.0]), jax.random.key(1), marginal=True)
    gained = float(measured.precision - fed.measure(state))
    assert_allclose(marginals(measured), [0, gained, 0, 0], atol=1e-6)


def test_numbers_change_without_recompiling() -> None:
    traced = []

    @eqx.filter_jit
    def slot(fed: FedAvg) -> Array:
        traced.append(1)
        model, _ = fed.round(fed.init_model(jax.random.key(0)), UNEQUAL, jax.random.key(1))
        return jnp.ravel(jax.tree.leaves(model)[0])

    options: list[dict[str, Any]] = [
        {"learning_rate": rate, "proximal": pull, "server_learning_rate": server, "server_momentum": beta}
        for rate, pull, server, beta in ((0.05, 0.1, 0.5, 0.9), (0.1, 0.1, 0.5, 0.9), (0.1, 0.2, 1.0, 0.5))
    ]
    first, second, third = (np.asarray(slot(federation(aggregation="fedavgm", **each))) for each in options)
    assert len(traced) == 1
    assert (first != second).any()
    assert (second != third).any()


def test_precision_is_the_share_of_held_out_samples_that_are_right() -> None:
    fed = federation(held_out=100)
    weights = fed.init_model(jax.random.key(0)).weights
    w1, b1, w2, b2 = (w.astype(float) for w in inputs_first(weights))
    x = (np.asarray(fed.test.features).astype(float) - fed.centre) / fed.deviation
    guess = (np.maximum(x @ w1 + b1, 0) @ w2 + b2).argmax(axis=1)
    assert_allclose(fed.precision(weights), np.mean(guess == np.asarray(fed.test.labels)), atol=1e-7)


def test_padding_is_never_right_whatever_type_the_labels_have() -> None:
    """Of 256 classes in one byte the last is 255, which is also what −1 would become."""
    data = pictures(samples=205, side=4, channels=1)  # 41 held out: one is padded on two devices
    last = dataclasses.replace(data, classes=256, test_labels=np.full(41, 255, np.uint8))
    parts = shard(federation(last, model="logistic"))
    none = jax.tree.map(jnp.zeros_like, parts.init(jax.random.key(0)))
    always = eqx.tree_at(lambda s: s.model.weights.layers[0].bias, none, jnp.zeros(256).at[255].set(1.0))
    assert parts.measure(always) == 1


@pytest.mark.parametrize("model", ["logistic", "mlp"])
@pytest.mark.parametrize("optimise", ["sgd", "momentum", "adam"])
def test_every_model_and_optimiser_learns_the_digits(model: str, optimise: str) -> None:
    rate = {"sgd": 0.05, "momentum": 0.01, "adam": 0.003}[optimise]
    fed = federation(model=model, optimiser=optimise, learning_rate=rate)
    trace = run(fed, np.ones(4), jax.random.key(0), 20)
    assert trace.initial < 0.3
    assert trace.precision[-1] > 0.9


def test_bfloat16_learns_nearly_as_well() -> None:
    exact, short = (
        run(federation(dtype=dtype), np.ones(4), jax.random.key(0), 20).precision[-1]
        for dtype in ("float32", "bfloat16")
    )
    assert abs(exact - short) < 0.03


@pytest.mark.parametrize("aggregation", ["fedavg", "fedavgm", "fedadam", "fedyogi"])
def test_double_precision_elsewhere_leaves_the_engine_in_float32(aggregation: str) -> None:
    """The theory runs in float64; a game that has both must not train in it, nor trip over it."""
    with jax.enable_x64(True):
        fed = federation(
            dynamics="redraw", optimiser="adam", learning_rate=0.003, proximal=0.1, epochs=2, aggregation=aggregation
        )
        state = fed.init(jax.random.key(0))
        after, measured = eqx.filter_jit(fed.train)(state, jnp.full(4, 0.5), jax.random.key(1), marginal=True)
        assert {leaf.dtype.name for leaf in jax.tree.leaves(after.model.weights)} == {"float32"}
        assert {leaf.dtype.name for leaf in jax.tree.leaves(after.model.server)} <= {"float32", "int32"}
        assert {leaf.dtype.name for leaf in jax.tree.leaves(measured)} == {"float32"}
        kinds = [jax.tree.map(lambda leaf: leaf.dtype, tree) for tree in (state, after)]
        assert kinds[0] == kinds[1]


@pytest.mark.parametrize(("contribution", "steps"), [(1.0, 14), (0.1, 2), (0.001, 1), (0.0, 0)])
def test_work_follows_the_largest_contribution(contribution: float, steps: int) -> None:
    """350 samples in batches of 25: as many steps as they need, and each of the four silos takes part in all."""
    taken, key = list[int](), jax.random.key(0)

    def counting(rate: Array) -> optax.GradientTransformation:
        def update(gradient: PyTree, state: PyTree, _: PyTree = None) -> tuple[PyTree, PyTree]:
            jax.debug.callback(lambda _: taken.append(1), jax.tree.leaves(gradient)[0])
            return jax.tree.map(lambda g: -rate * g, gradient), state

        return optax.GradientTransformation(lambda _: optax.EmptyState(), update)

    OPTIMISERS.register("counting", counting)
    fed = federation(samples=350, batch_size=25, optimiser="counting")
    fed.round(fed.init_model(key), jnp.array([contribution, 0.0, 0.0, 0.0]), key)
    jax.effects_barrier()
    assert len(taken) == 4 * steps
