"""Our own DNC on the same work, answering in the same way as its rivals."""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from potluck import __version__
from potluck.agents.dnc import DNC, DNCSize
from potluck.studies.benchmarks.sequences import Sizes, median_milliseconds, report


def main(sizes: Sizes) -> None:
    for_weights, for_work = jax.random.split(jax.random.key(0))
    size = DNCSize(sizes.words, sizes.width, sizes.heads, sizes.hidden)
    dnc = DNC.create(sizes.inputs, sizes.inputs, size, "lstm", for_weights)
    x, told = jax.random.normal(for_work, (2, sizes.batch, sizes.steps, sizes.inputs))

    def loss(dnc: DNC) -> Array:
        said = jax.vmap(lambda x: jax.lax.scan(lambda state, x: dnc(state, x), dnc.initial(), x)[1])(x)
        return jnp.mean((said - told) ** 2)

    gradient = eqx.filter_jit(eqx.filter_value_and_grad(loss))
    milliseconds = median_milliseconds(lambda: jax.block_until_ready(gradient(dnc)))
    report(milliseconds, __version__, jax.devices()[0].platform)


if __name__ == "__main__":
    main(Sizes.parse(sys.argv[1]))
