"""Which updates count as spikes: Levanter's own skip-step as the oracle."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from levanter.optim.skipstep import SkipStepConfig

from marin_exec import ConfigError
from steps.train.spikes import empty_window, judge
from steps.train.watch_config import SpikeConfig
from tests.steps.model.quick_compilation import quick_compilation  # noqa: F401


def verdicts(losses, norms, config: SpikeConfig) -> list[bool]:
    run = jax.jit(lambda state, loss, norm: judge(state, loss, norm, config))
    state, found = empty_window(config), []
    for loss, norm in zip(losses, norms, strict=True):
        verdict, state = run(state, loss, norm)
        found.append(bool(verdict.is_spike))
    assert int(state.num_seen) == len(losses)
    return found


def levanters(losses, norms, config: SpikeConfig) -> list[bool]:
    """A gradient of one number is its own norm; an update that is left out is zero."""
    wrapped = SkipStepConfig(config.window, config.deviations).wrap(optax.identity())
    weight, found = jnp.ones(1), []
    state = wrapped.init(weight)
    update = jax.jit(lambda gradient, state, loss: wrapped.update(gradient, state, weight, loss=loss))
    for loss, norm in zip(losses, norms, strict=True):
        updates, state = update(jnp.full(1, norm), state, loss)
        found.append(not bool(updates[0]))
    return found


@pytest.mark.parametrize("seed", [0, 1])
def test_spikes_are_those_that_levanter_leaves_out(seed):
    random = np.random.default_rng(seed)
    losses, norms = (random.normal(4, 0.3, 70).astype(np.float32) for _ in range(2))
    losses[[3, 20, 41, 42]] = [40, 9, 9, 9]  # the first comes too early to be judged
    norms[33] = 9
    losses[58:] += 3  # another level: left out at first, then the window has it
    config = SpikeConfig(window=10, deviations=3)
    found = verdicts(losses, norms, config)
    assert found == levanters(losses, norms, config)
    assert not found[3] and found[20] and found[33] and found[58] and not all(found[58:])


def test_spikes_limits_are_unknown_until_half_of_the_window_was_seen():
    config = SpikeConfig(window=8)
    state = empty_window(config)
    for loss in (2.0, 4.0, 2.0, 4.0):
        verdict, state = judge(state, jnp.float32(loss), jnp.float32(1), config)
        assert np.isinf(verdict.loss_limit) and not verdict.is_spike
    verdict, _ = judge(state, jnp.float32(9.01), jnp.float32(1), config)
    assert float(verdict.loss_limit) == pytest.approx(3 + 6 * 1.0) and verdict.is_spike


@pytest.mark.parametrize("change", [{"window": 3}, {"deviations": 0.0}])
def test_spike_config_impossible_value_is_refused(change):
    with pytest.raises(ConfigError, match=next(iter(change))):
        SpikeConfig(**change)
