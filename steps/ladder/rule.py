"""The one rule that turns a width into a whole training run.

Form and constants, and where they are from:

* depth, head width, vocabulary, sequence, experts: the project's small ladder (2 layers, heads of 16, 2,048 tokens, sequences of
  128, 16 experts with 2 chosen, expert and shared width = width / 2), the hero run's geometry shrunk to two cores;
* tokens = 3 x (active parameters + output head). The hero's ladder trains in proportion to active parameters alone; at
  these widths the head is most of the model, and that proportion starves the small rungs;
* batch: the largest that still leaves `MINIMUM_STEPS` updates, so it grows with the tokens;
* learning rates: one hyperball rate for all rungs (an angle for each step, so it carries over between widths), Adam's 3/13 of
  it as in the hero's law.

The rule is measured for widths 32 to 112 only (docs/model.md). It isn't meant for other orders of magnitude: there, use a
law fitted at that size.
"""

from dataclasses import dataclass

from marin_exec import ConfigError
from steps.model.config import ModelConfig
from steps.model.counts import active_parameters, lm_head_parameters

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
    if width <= 0 or width % HEAD_WIDTH:
        raise ConfigError(f"ladder: width is {width}; a positive multiple of {HEAD_WIDTH} (the head width) is needed")
    model = ModelConfig(
        width=width,
        num_layers=2,
        num_heads=width // HEAD_WIDTH,
        vocabulary_size=vocabulary_size,
        sequence_length=sequence_length,
        expert_width=width // 2,
        shared_width=width // 2,
    )
    sequences = TOKENS_PER_PARAMETER * (active_parameters(model) + lm_head_parameters(model)) // sequence_length
    batch = max(1, sequences // MINIMUM_STEPS)
    return RungSpec(
        model=model,
        batch_sequences=batch,
        num_steps=max(MINIMUM_STEPS, round(sequences / batch)),
        learning_rate=HYPERBALL_LEARNING_RATE,
        adam_learning_rate=HYPERBALL_LEARNING_RATE * ADAM_SHARE,
    )
