import dataclasses

import numpy as np
import pytest

from marin_exec import ConfigError, Step
from marin_exec.identity import identify
from steps.mix.simulated_epochs import check_simulated_epochs, simulated_sizes
from steps.train.language_model import train_language_model
from tests.steps.train.training_runs import tiny_config

INPUTS = {"tokens": "/tokens", "mixture": "/mixture", "evaluation": "/evaluation"}
RUN_TOKENS = 12 * 4 * 16


@pytest.mark.parametrize(
    "changes",
    [
        {"simulated_budget_tokens": RUN_TOKENS},
        {"simulated_budget_tokens": RUN_TOKENS - 1},
        {"simulated_budget_tokens": 10 * RUN_TOKENS, "real": True},
    ],
)
def test_simulated_epochs_are_refused_for_the_run_that_is_meant_itself(changes):
    """Bug of another chain: simulated epoching was left on for the real run, which would have seen a part of its data."""
    with pytest.raises(ConfigError, match="Leave it None for the real run"):
        tiny_config(INPUTS, **changes)


def test_simulated_epochs_without_a_budget_have_no_subset():
    with pytest.raises(ConfigError, match="nothing is cut"):
        tiny_config(INPUTS, subset_seed=1)
    check_simulated_epochs(RUN_TOKENS, None, None, real=True)


def test_simulated_sizes_are_exact_where_floating_point_is_not():
    sizes = np.array([0, 1, 10, 3 * 10**15, 2**53 + 2])
    assert simulated_sizes(sizes, 10**12, 10**13).tolist() == [0, 1, 1, 3 * 10**14, (2**53 + 2) // 10]
    assert simulated_sizes(np.array([49]), 1, 49).tolist() == [1]  # 49 * (1 / 49) is below 1
    assert simulated_sizes(np.array([7 * 49]), 1, 49).tolist() == [7]


def test_simulated_epochs_are_identity_and_leave_that_of_other_runs_alone():
    plain = tiny_config(INPUTS)
    changes = [{}, {"real": True}, {"simulated_budget_tokens": 10_000}, {"simulated_budget_tokens": 20_000}]
    changes.append({"simulated_budget_tokens": 20_000, "subset_seed": 1})
    configs = [dataclasses.replace(plain, **each) for each in changes]
    steps = [Step(f"run-{i}", train_language_model, config) for i, config in enumerate(configs)]
    digests = [each.digest for each in identify(steps).values()]
    assert digests[0] == digests[1]  # a guard alone
    assert len(set(digests)) == 4
