"""Log-likelihoods of continuations under a checkpoint: rows of tokens, and which of them count."""

import jax
import numpy as np

from marin_exec import StepFailed
from steps.evaluate.losses import Rows, row_nats
from steps.evaluate.multiple_choice import Item
from steps.evaluate.scoring import load_model
from steps.model.mesh import device_mesh
from steps.tokenize.tokenizer import LoadedTokenizer, load_tokenizer
from steps.train.threads import unsplit_products


def score_choices(checkpoint: str, tokenizer: str, items: list[Item]) -> tuple[int, list[list[float]]]:
    """Returns the updates in a checkpoint, and each item's log-likelihoods in nats, in the order of its choices.

    Raises:
        StepFailed: the tokenizer is not the model's, or a choice is longer than the model's sequence.
    """
    unsplit_products()
    loaded = load_tokenizer(tokenizer)
    with jax.set_mesh(device_mesh()):
        step, model, state = load_model(checkpoint)
        size = loaded.tokenizer.get_vocab_size()
        if size > model.vocabulary_size:
            raise StepFailed(
                f"{tokenizer}: a vocabulary of {size} tokens; the model of {checkpoint} knows {model.vocabulary_size}. Give the "
                "tokenizer that its tokens were made with"
            )
        rows = [
            choice_row(loaded, item.context, choice, model.sequence_length, f"item {number}, choice {place}")
            for number, item in enumerate(items)
            for place, choice in enumerate(item.choices)
        ]
        nats = row_nats(state["parameters"], state["qb_betas"], Rows(*map(np.stack, zip(*rows, strict=True))), model)
    ends = np.cumsum([len(item.choices) for item in items])[:-1]
    return step, [(-each).tolist() for each in np.split(nats, ends)]


def choice_row(loaded: LoadedTokenizer, context: str, choice: str, length: int, where: str) -> Rows:
    """Returns one row, without its first axis: the begin token, the context and the choice, whose tokens alone count.

    Text is tokenised whole, and a choice's tokens are those after as many as the context alone has: the harness's rule. A context
    that is too long is cut at its front.
    """
    before = loaded.tokenizer.encode(context, add_special_tokens=False).ids
    whole = loaded.tokenizer.encode(context + choice, add_special_tokens=False).ids
    if loaded.begin is not None:
        before, whole = [loaded.begin, *before], [loaded.begin, *whole]
    counted = len(whole) - len(before)
    if not 0 < counted <= length:
        raise StepFailed(
            f"{where}: {counted} tokens after the context; 1 to {length} are needed, the model's sequence. Shorten the choice, or "
            "begin it where a token begins"
        )
    kept = whole[-(length + 1) :]
    tokens, segments = np.zeros(length + 1, np.int32), np.full(length + 1, -1, np.int32)
    tokens[: len(kept)], segments[: len(kept)] = kept, 0
    mask = np.zeros(length, bool)
    mask[len(kept) - 1 - counted : len(kept) - 1] = True
    return Rows(tokens, segments, mask)
