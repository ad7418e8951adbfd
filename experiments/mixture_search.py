"""A search for mixture weights on the quickstart's data: small runs, a surrogate of them, a candidate, and a check of its gain.

`search/report` is the page of it, with the tokens and the mixture that it came to.
The data, tokens and held-out sets are the quickstart's own steps: in one store, what either has made the other does not
make again. The weights are for a run of `TARGET_TOKENS`; the proxies see as large a part of each cell as theirs is of it.
"""

from dataclasses import replace
from pathlib import Path

from quickstart import EVALUATION_SEQUENCES, HERO, SEQUENCE_LENGTH, VOCABULARY_SIZE
from quickstart import pipeline as quickstart

from marin_exec import Step, main
from marin_exec.step import topological
from steps.documents import NamedInput
from steps.ladder.config import ladder_config
from steps.ladder.rule import rung
from steps.mix.search.swarm import SearchSize, weight_search
from steps.report.mixture import MixtureReportConfig, mixture_report
from steps.train.language_model import TrainConfig
from steps.train.threads import train_resources

TARGET_TOKENS = HERO.tokens
RUNG = rung(32, vocabulary_size=VOCABULARY_SIZE, sequence_length=SEQUENCE_LENGTH)
PROXY = replace(RUNG, num_steps=150, batch_sequences=8)  # 153,600 tokens: some 10 CPU seconds a run
COMPILED = Path.home() / ".cache/marin-exec/compiled"  # all runs are of one shape: compiled once, not 28 times
SIZE = SearchSize(num_designs=24, check_seeds=(1, 2))


def pipeline() -> list[Step]:
    made = {step.name: step for step in topological(quickstart())}
    tokens, evaluation = made["tokens/train"], made["tokens/evaluation"]

    def proxy(mixture: Step, seed: int) -> TrainConfig:
        config = ladder_config(
            PROXY, tokens=tokens, mixture=mixture, evaluation=evaluation, evaluation_sequences=EVALUATION_SEQUENCES,
            seed=seed,
        )  # fmt: skip
        return replace(
            config, simulated_budget_tokens=TARGET_TOKENS, subset_seed=0, evaluate_every=1.0, checkpoint_every=1.0
        )

    search = weight_search(
        "search", tokens=tokens, sequence_length=SEQUENCE_LENGTH, target_tokens=TARGET_TOKENS, proxy=proxy, size=SIZE,
        resources=train_resources(1, compiled=COMPILED),
    )  # fmt: skip
    checks = zip(SIZE.check_seeds, search.gain.config.candidate_runs, strict=True)
    page = MixtureReportConfig(
        title="A search for mixture weights", tokens=tokens, mixture=search.mixture, tokenizer=made["tokenizer"],
        cells=made["mix/cells"], topics=made["cluster/topics"], candidate=search.candidate, gain=search.gain,
        runs=tuple(NamedInput(name=f"candidate, seed {seed}", path=run) for seed, run in checks),
    )  # fmt: skip
    return [search.gain, Step("search/report", mixture_report, page)]


if __name__ == "__main__":
    main(pipeline)
