"""The one rule that turns a width into a whole training run.

Form and constants, and where they are from:

* depth, head width, vocabulary, sequence, experts: the project's small ladder (2 layers, heads of 16, 2,048 tokens, sequences of
  128, 16 experts with 2 chosen, expert and shared width = width / 2), the hero run's geometry shrunk to two cores;
* tokens = 3 x (active parameters + output head). The hero's ladder trains in proportion to active parameters alone; at
  these widths the head is most of the model, and that proportion starves the small rungs;
* batch: the largest that still leaves `MINIMUM_STEPS` updates, so it grows with the tokens;
* learning rates: one hyperball rate for all rungs (an angle for each step, so it carries over between widths), Adam's 3/13 of
  it as in the hero's law.

`hero_rung` is the same rule over a model with all features of the hero run and drops on the way to its experts.

The rule is measured for widths 32 to 112 only (docs/model.md). It isn't meant for other orders of magnitude: there, use a
law fitted at that size.
"""

from dataclasses import dataclass, replace

from marin_exec import ConfigError
from steps.model.config import ModelConfig
from steps.model.counts import active_parameters, lm_head_parameters
from steps.model.dispatch.limits import PooledDispatch
from steps.model.features import hero_features

RUNG_WIDTHS = (32, 48, 64, 80)
HERO_WIDTH = 112
MINIMUM_STEPS = 400
TOKENS_PER_PARAMETER = 3
HYPERBALL_LEARNING_RATE = 0.1
ADAM_SHARE = 3 / 13
HEAD_WIDTH = 16


@dataclass(frozen=True, kw_only=True)
class RungSpec:
    """All that a rung's width decides."""

    model: ModelConfig
    """The shape."""
    batch_sequences: int
    """Sequences in one update."""
    num_steps: int
    """Updates."""
    learning_rate: float
    """Peak rate of the hyperball groups (an angle for each step)."""
    adam_learning_rate: float
    """Peak rate of the Adam group."""

    @property
    def name(self) -> str:
        """The rung's display name, e.g. "d64"."""
        return f"d{self.model.width}"

    @property
    def tokens(self) -> int:
        """Tokens predicted in the whole run."""
        return self.num_steps * self.batch_sequences * self.model.sequence_length


def rung(width: int, *, vocabulary_size: int = 2048, sequence_length: int = 128) -> RungSpec:
    """Returns the run that the rule gives a width.

    Args:
        width: features of the residual stream.
        vocabulary_size: tokens.
        sequence_length: in tokens.

    Raises:
        ConfigError: the width is not a positive multiple of the head width.
    """
    return spec_of(_plain_model(width, vocabulary_size, sequence_length))


def hero_rung(width: int, *, vocabulary_size: int = 2048, sequence_length: int = 64, num_shards: int = 4) -> RungSpec:
    """Returns the run of the same rule with all features of the hero run's model, and its dispatch with drops.

    Args:
        width: features of the residual stream.
        vocabulary_size: tokens.
        sequence_length: in tokens; local layers see half of it.
        num_shards: virtual source shards of a batch, and shards of the experts; batches are whole multiples of it.

    Raises:
        ConfigError: the width is not a positive multiple of the head width.
    """
    plain = _plain_model(width, vocabulary_size, sequence_length)
    features = hero_features(width=width, num_heads=plain.num_heads, sequence_length=sequence_length)
    return spec_of(replace(plain, **features, dispatch=PooledDispatch(num_shards=num_shards)), multiple=num_shards)


def spec_of(model: ModelConfig, *, multiple: int = 1) -> RungSpec:
    """Returns the run that the rule gives a model: tokens, batch, updates and rates.

    Args:
        model: the shape.
        multiple: of which batches are, in sequences.
    """
    parameters = active_parameters(model) + lm_head_parameters(model)
    sequences = TOKENS_PER_PARAMETER * parameters // model.sequence_length
    batch = max(multiple, sequences // MINIMUM_STEPS // multiple * multiple)
    return RungSpec(
        model=model,
        batch_sequences=batch,
        num_steps=max(MINIMUM_STEPS, round(sequences / batch)),
        learning_rate=HYPERBALL_LEARNING_RATE,
        adam_learning_rate=HYPERBALL_LEARNING_RATE * ADAM_SHARE,
    )


def _plain_model(width: int, vocabulary_size: int, sequence_length: int) -> ModelConfig:
    if width <= 0 or width % HEAD_WIDTH:
        raise ConfigError(f"ladder: width is {width}; a positive multiple of {HEAD_WIDTH} (the head width) is needed")
    return ModelConfig(
        width=width,
        num_layers=2,
        num_heads=width // HEAD_WIDTH,
        vocabulary_size=vocabulary_size,
        sequence_length=sequence_length,
        expert_width=width // 2,
        shared_width=width // 2,
    )
