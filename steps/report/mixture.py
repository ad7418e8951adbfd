"""report/mixture: what training is fed, in tokens: the store by cell, weights by phase, epochs against the cap, and rounding.

`index.html`, self-contained, and `report.json`, the same values. No text of a document is on it.
"""

from dataclasses import dataclass
from typing import Annotated, Any

from marin_exec import ConfigError, InputPath, Out, kind, measured
from steps.config_checks import check_number
from steps.documents import NamedInput
from steps.report.experiment import content_digest


@dataclass(frozen=True, kw_only=True)
class MixtureReportConfig:
    title: str = "Mixture and tokens"
    tokens: InputPath
    """Token store of the training cells (tokenize/cache)."""
    mixture: InputPath
    """Output of mix/weights for it."""
    tokenizer: InputPath | None = None
    """Output of the tokenizer step, for what is known of it."""
    cells: InputPath | None = None
    """Output of mix/cells, whose documents the tokenizer is tried on."""
    topics: InputPath | None = None
    """Output of cluster/topics, for the names of topics."""
    languages: InputPath | None = None
    """Output of documents/language on all sources, for bytes a token by language."""
    candidate: InputPath | None = None
    """Output of mix/candidate on the store."""
    gain: InputPath | None = None
    """Output of mix/gain of that candidate."""
    runs: tuple[NamedInput, ...] = ()
    """Outputs of train/language_model on the mixture, for their simulated epochs."""
    tried_documents: int = 200
    """Documents of the store that the tokenizer is tried on."""
    seed: int = 0
    """Of the choice of these."""

    def __post_init__(self) -> None:
        check_number(self, "tried_documents", low=0)
        if self.gain is not None and self.candidate is None:
            raise ConfigError(
                "MixtureReportConfig.gain is set and candidate is None; give the candidate whose gain it is"
            )


@dataclass(frozen=True)
class MixtureReportResult:
    page: str
    """Below the output."""
    cells: int
    components: int
    tokens: int
    page_bytes: Annotated[int, measured]


@kind("report/mixture", version=1, content_digest=content_digest, reads_lineage=True)
def mixture_report(config: MixtureReportConfig, out: Out) -> MixtureReportResult:
    """Writes the page and its twin.

    Raises:
        StepFailed: an output lacks a file; mixture, tokenizer or candidate are not of the token store; or a run is of another
            mixture.
    """
    from steps.report.mixture_sections import sections
    from steps.report.stage_page import write_stage_page

    values = gather(config)
    mixture, total = values["mixture"], values["store"]["total"]
    phases, budget = len(mixture["phase_starts"]), max(mixture["budgets_tokens"])
    lead = (
        f"{total['tokens']:,} tokens of {total['documents']:,} documents in {len(values['store']['by_cell']):,} cells; the largest "
        f"run draws {budget:,}, repeats included, in {phases} phases."
    )
    names = ("tokens", "mixture", "tokenizer", "cells", "topics", "languages", "candidate", "gain")
    inputs = [path for name in names if (path := getattr(config, name)) is not None]
    inputs += [run.path for run in config.runs]
    page_bytes = write_stage_page(out, config.title, lead, values, sections(values), inputs)
    return MixtureReportResult(
        page="index.html",
        cells=len(values["store"]["by_cell"]),
        components=len(values["components"]),
        tokens=total["tokens"],
        page_bytes=page_bytes,
    )


def gather(config: MixtureReportConfig) -> dict[str, Any]:
    """Returns the page's values as plain JSON."""
    from steps.mix.mixture import read_mixture
    from steps.report import mixture_gather, search_gather, tokens_gather
    from steps.report.outputs import read_json
    from steps.tokenize.store import read_index

    index, mixture = read_index(config.tokens), read_mixture(config.mixture)
    mixture_gather.check_store(mixture, index, config.mixture)
    counts = tokens_gather.by_cell_and_source(config.tokens)
    by_source = tokens_gather.summed(counts, "source")
    sources = [row["source"] for row in by_source]
    by_language = config.languages and tokens_gather.by_language(config.tokens, index, config.languages, sources)
    overall = mixture_gather.overall(mixture, config.mixture, index)
    tried = None
    if config.tokenizer is not None and config.cells is not None and config.tried_documents:
        tried = tokens_gather.round_trip(
            config.tokens, index, f"{config.cells}/cells", config.tokenizer, config.tried_documents, config.seed
        )
    listed = read_json(f"{config.topics}/topics.json")["topics"] if config.topics is not None else []
    return {
        "format": "report/mixture/1",
        "tokenizer": tokens_gather.tokenizer(config.tokenizer, index),
        "round_trip": tried,
        "topics": {row["topic"]: row["name"] for row in listed},
        "store": {
            "total": {key: sum(row[key] for row in by_source) for key in ("documents", "tokens", "bytes")},
            "by_cell": tokens_gather.by_cell(counts),
            "by_source": by_source,
            "by_language": by_language,
        },
        "mixture": overall,
        "components": mixture_gather.components(mixture),
        "tail": mixture_gather.tail(mixture, index, overall["config"].get("min_sequences")),
        "got_zero": mixture_gather.got_zero(mixture),
        "blocks": mixture_gather.blocks(mixture),
        "simulated": mixture_gather.simulated(mixture, config.mixture, config.runs),
        "candidate": config.candidate and search_gather.candidate(config.candidate, mixture, index),
        "gain": config.gain and search_gather.gain(config.gain),
    }
