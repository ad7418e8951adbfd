"""Raw texts of all that normalising drops and changes, to documents, to languages, to the page of it."""

from dataclasses import dataclass

import pyarrow as pa

from marin_exec import Out, Step, kind, main
from steps.documents import NamedInput, read_table, shard_names, write_table
from steps.normalize.normalize import NormalizeConfig, normalize
from steps.report.normalized import NormalizedReportConfig, normalized_report
from steps.sources.cards import SourceCard
from steps.sources.raw import RawDocument, raw_name, write_raw

SECRET = "the secret that only mails hold"
TEXTS = (
    *(f"text number {n} stands here" for n in range(8)),
    *("the same text", "the same text", "the same text", "", " \n "),
    "pressed down: e\u0301cole and <script>owned()</script>",
    "a bell\x07 and a nul\x00 of jane.doe@example.com",
    f"far{' ' * 900}apart",
    f"a rule {'=' * 90} across",
    *(f"auf deutsch {n}" for n in range(4)),
)
SPOKEN = (("deutsch", "de"), ("bell", "und"))
SOURCES = ("prose", "mail", "uncarded")


def card(name: str, show: bool = True) -> SourceCard:
    return SourceCard(
        name=name, kind="help", languages=("en",), origin="a <test>", licence="CC-0", limits="Made up.", show=show
    )


def texts_of(source: str) -> list[str]:
    return [text if source == "prose" or not text.strip() else f"{text}, {SECRET}" for text in TEXTS]


@dataclass(frozen=True, kw_only=True)
class TextsConfig:
    source: str


@kind("test/raw_texts", version=1)
def raw_texts(config: TextsConfig, out: Out) -> dict[str, int]:
    rows = [RawDocument(f"<i>{config.source}/{n}", text, "{}") for n, text in enumerate(texts_of(config.source))]
    return {"documents": write_raw(out.file(raw_name(0)), rows)[0]}


@dataclass(frozen=True, kw_only=True)
class LanguagesConfig:
    sources: tuple[NamedInput, ...]


@kind("test/declared-languages", version=1)
def languages(config: LanguagesConfig, out: Out) -> dict[str, int]:
    for source in config.sources:
        for shard in shard_names(source.path):
            rows = read_table(source.path, shard, ["id", "text"]).to_pylist()
            found = [next((name for word, name in SPOKEN if word in row["text"]), "en") for row in rows]
            columns = {
                "id": pa.array([row["id"] for row in rows]),
                "language": pa.array(found),
                "language_score": pa.array([0.25 if each == "de" else 0.75 for each in found], pa.float32()),
            }
            write_table(out.file(f"{source.name}/{shard}"), pa.table(columns))
    return {}


def pipeline() -> list[Step]:
    raw = tuple(NamedInput(name=n, path=Step(f"raw/{n}", raw_texts, TextsConfig(source=n))) for n in SOURCES)
    settings = {"unicode_form": "NFC", "control_characters": "drop", "repeated_run_characters": 20}
    normalized = tuple(
        NamedInput(
            name=each.name,
            path=Step(f"documents/{each.name}", normalize, NormalizeConfig(source=each.path, documents_per_shard=8, **settings)),
        )
        for each in raw
    )  # fmt: skip
    found = Step("language", languages, LanguagesConfig(sources=normalized))
    page = NormalizedReportConfig(
        title="The <sources> & their page", normalized=normalized, raw=raw, languages=found,
        cards=(card("prose"), card("mail", show=False)), samples_per_source=4,
    )  # fmt: skip
    return [Step("report/normalized", normalized_report, page)]


if __name__ == "__main__":
    main(pipeline)
