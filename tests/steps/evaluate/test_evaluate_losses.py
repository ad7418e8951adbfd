"""Held-out losses against NumPy and against what they must not depend on."""

import math
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from marin_exec import StepFailed
from steps.evaluate.losses import Evaluator, Rows, row_nats
from steps.model.config import ModelConfig
from steps.model.mesh import device_mesh
from steps.model.parameters import initial_parameters
from tests.steps.model import numpy_model

MODEL = ModelConfig(
    width=16,
    num_layers=2,
    num_heads=2,
    vocabulary_size=50,
    sequence_length=8,
    num_experts=4,
    expert_width=8,
    shared_width=8,
)
BETAS = np.random.default_rng(9).normal(size=(2, 4)).astype(np.float32) * 0.3


@pytest.fixture(scope="module")
def parameters():
    return initial_parameters(MODEL, 1)


def held_out(seed: int, num_sequences: int):
    random = np.random.default_rng(seed)
    segments = np.sort(random.integers(0, 3, (num_sequences, 9)), axis=1).astype(np.int32)
    segments[-1, 6:] = -1
    mask = (segments[:, 1:] >= 0) & (segments[:, 1:] == segments[:, :-1])
    tokens = random.integers(0, 50, (num_sequences, 9)).astype(np.int32)
    sizes = random.integers(1, 9, (num_sequences, 8)).astype(np.int32)
    return SimpleNamespace(tokens=tokens, segment_ids=segments, loss_mask=mask, target_bytes=sizes)


SETS = {"manual": held_out(1, 5), "code": held_out(2, 2)}


def evaluate(parameters, betas, sets, **options):
    with jax.set_mesh(device_mesh()):
        return Evaluator(sets, MODEL, **options)(parameters, jnp.asarray(betas))


def numpy_nats(parameters, betas, each):
    hidden, _ = numpy_model.hidden_states(parameters, betas, each.tokens[:, :-1], each.segment_ids[:, :-1], MODEL, None)
    logits = hidden @ np.asarray(parameters["lm_head"], np.float64)
    losses = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, each.tokens[:, 1:, None], -1)[..., 0]
    return float(losses[each.loss_mask].sum())


def test_evaluation_losses_equal_numpy(parameters):
    found = evaluate(parameters, BETAS, SETS)
    nats = {name: numpy_nats(parameters, BETAS, each) for name, each in SETS.items()}
    targets = {name: int(each.loss_mask.sum()) for name, each in SETS.items()}
    loss = {name: nats[name] / targets[name] for name in SETS}
    assert {name: each.loss for name, each in found.sets.items()} == pytest.approx(loss, rel=1e-5)
    num_bytes = {name: int(each.target_bytes[each.loss_mask].sum()) for name, each in SETS.items()}
    assert found.sets["code"].bpb == pytest.approx(nats["code"] / math.log(2) / num_bytes["code"], rel=1e-5)
    assert found.macro_loss == pytest.approx((loss["code"] + loss["manual"]) / 2, rel=1e-5)
    assert found.micro_loss == pytest.approx(sum(nats.values()) / sum(targets.values()), rel=1e-5)
    assert found.macro_loss != pytest.approx(found.micro_loss, rel=1e-4), "the sets must tell the two apart"
    assert found.micro_bpb == pytest.approx(sum(nats.values()) / math.log(2) / sum(num_bytes.values()), rel=1e-5)
    assert found.macro_bpb == pytest.approx(sum(nats[n] / num_bytes[n] for n in SETS) / 2 / math.log(2), rel=1e-5)


def test_evaluation_applies_the_pending_thresholds(parameters):
    with_thresholds = evaluate(parameters, BETAS, SETS)
    assert evaluate(parameters, np.zeros_like(BETAS), SETS).macro_loss != with_thresholds.macro_loss


def test_evaluation_does_not_depend_on_order_or_company_of_sets(parameters):
    both = evaluate(parameters, BETAS, SETS)
    turned = evaluate(parameters, BETAS, dict(reversed(SETS.items())))
    alone = evaluate(parameters, BETAS, {"manual": SETS["manual"]})
    assert turned == both
    assert alone.sets["manual"].loss == pytest.approx(both.sets["manual"].loss, rel=1e-6)


def test_evaluation_of_a_few_sequences_counts_the_bytes_of_their_targets(parameters):
    few = evaluate(parameters, BETAS, SETS, sequences_per_set=2)
    first = SimpleNamespace(**{name: value[:2] for name, value in vars(SETS["manual"]).items()})
    nats, num_bytes = numpy_nats(parameters, BETAS, first), first.target_bytes[first.loss_mask].sum()
    assert few.sets["manual"].loss == pytest.approx(nats / first.loss_mask.sum(), rel=1e-5)
    assert few.sets["manual"].bpb == pytest.approx(nats / math.log(2) / num_bytes, rel=1e-5)
    assert few.sets["code"] == evaluate(parameters, BETAS, SETS).sets["code"]


def test_evaluation_names_are_levanters(parameters):
    tagged = evaluate(parameters, BETAS, SETS).tagged("eval")
    assert set(tagged) == {"eval/loss", "eval/macro_loss", "eval/bpb", "eval/macro_bpb"} | {
        f"eval/{name}/{what}" for name in SETS for what in ("loss", "bpb")
    }


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ({}, "no held-out sets"),
        ({"a": SimpleNamespace(tokens=np.zeros((1, 5), np.int32))}, "rows of 5 tokens; .* so 9 are needed"),
        (
            {"a": SimpleNamespace(**(vars(held_out(3, 1)) | {"loss_mask": np.zeros((1, 8), bool)}))},
            "no target with text is counted",
        ),
        (
            {"a": SimpleNamespace(**(vars(held_out(3, 1)) | {"target_bytes": np.zeros((1, 8), np.int32)}))},
            "no target with text is counted",
        ),
    ],
)
def test_evaluation_sets_that_can_not_be_scored_are_refused(sets, message):
    with pytest.raises(StepFailed, match=message):
        Evaluator(sets, MODEL)


def test_row_nats_of_other_rows_equal_their_loss_as_a_set(parameters):
    each = SETS["manual"]
    with jax.set_mesh(device_mesh()):
        nats = row_nats(parameters, jnp.asarray(BETAS), Rows(each.tokens, each.segment_ids, each.loss_mask), MODEL)
    assert nats.shape == (5,)
    assert nats.sum() / each.loss_mask.sum() == evaluate(parameters, BETAS, SETS).sets["manual"].loss


def test_evaluation_with_drops_equals_numpy_at_the_same_capacity(parameters):
    crowded = {"crowd": held_out(3, 256)}  # one batch of 2,048 tokens
    betas = np.array([[-9.0, 0, 0, 0]] * 2, np.float32)
    with jax.set_mesh(device_mesh()):
        found = Evaluator(crowded, MODEL)(parameters, jnp.asarray(betas), with_drops=True)
    each = crowded["crowd"]
    hidden, drops = numpy_model.hidden_states(
        parameters, betas, each.tokens[:, :-1], each.segment_ids[:, :-1], MODEL, MODEL.capacity(2048)
    )
    logits = hidden @ np.asarray(parameters["lm_head"], np.float64)
    losses = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, each.tokens[:, 1:, None], -1)[..., 0]
    assert min(drops) > 0
    assert found.micro_loss == pytest.approx(float(losses[each.loss_mask].mean()), rel=1e-5)
    assert found.micro_loss != evaluate(parameters, betas, crowded).micro_loss
