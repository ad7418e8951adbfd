"""Scores apart from decisions, and documents judged in their own language."""

import json

import pyarrow as pa
import pytest

from marin_exec import ConfigError, StepFailed
from steps.documents import document_id, join_dense, read_all, read_table, shard_names, write_table
from steps.heuristics.judge import HeuristicsConfig, judge_documents
from steps.heuristics.language_rules import LANGUAGE_RULES, LanguageRule, preset_in
from steps.heuristics.presets import CODE, PROSE, REFERENCE, STARCODER, Limit, Preset
from steps.heuristics.score_documents import HeuristicScoresConfig, score_documents
from steps.heuristics.scores import SCORE_NAMES
from steps.heuristics.stop_words import STOP_WORDS
from steps.language.language import LanguageConfig, identify_languages
from tests.directory_out import DirectoryOut
from tests.steps.decontaminate.document_sets import write_documents
from tests.steps.heuristics.test_heuristic_scores import GOOD_CODE, GOOD_PROSE

GERMAN = (
    "Der Hafen wurde in dem Jahr gebaut, in dem der Fluss sein Bett verlegte. Schiffe jeder Größe kamen und lagen dort, und "
    "die Leute der Stadt begannen, mit Orten zu handeln, von denen sie nur gehört hatten.\n\n"
    "Niemand wusste, wer den ersten Einfall gehabt hatte. Bekannt ist, dass zwei Brüder ein Buch hinterließen, in dem die Namen "
    "aller Kapitäne stehen und die Waren, die durch ihre Hände gingen. Es liegt noch heute in der Bücherei!"
)
CHINESE = (
    "这个港口是在河流改道的那一年建成的。各种大小的船只都来到这里停泊,城里的人开始与他们只听说过的地方做生意。\n\n"
    "没有人能说出最初的想法是谁的。人们知道的是,有两个兄弟留下了一本账簿,里面写着所有船长的名字,也写着经过他们手中的货物。"
    "这本账簿到今天还保存在图书馆里。"
)
THAI = (
    "ท่าเรือแห่งนี้สร้างขึ้นในปีที่แม่น้ำเปลี่ยนทางเดิน เรือทุกขนาดเข้ามาจอดที่นี่ และชาวเมืองเริ่มค้าขายกับดินแดนที่พวกเขาเคยได้ยินแต่ชื่อ\n\n"
    "ไม่มีใครบอกได้ว่าความคิดแรกเป็นของใคร สิ่งที่รู้กันคือพี่น้องสองคนทิ้งสมุดบัญชีไว้ มีชื่อกัปตันทุกคนและสินค้าที่ผ่านมือพวกเขา"
)
TEXTS = {"en": GOOD_PROSE, "de": GERMAN, "zh": CHINESE, "th": THAI}


def write_languages(root, source, language_of):
    for shard in shard_names(source.path):
        ids = read_table(source.path, shard, ["id"])["id"]
        languages = pa.array([language_of[each] for each in ids.to_pylist()], pa.string())
        target = root / source.name
        target.mkdir(parents=True, exist_ok=True)
        write_table(str(target / shard), pa.table({"id": ids, "language": languages}))
    return str(root)


def judged(root, source, **options) -> dict[str, dict]:
    judge_documents(HeuristicsConfig(sources=(source,), preset_by_source={}, **options), DirectoryOut(root))
    return {row["id"]: row for row in read_all(f"{root}/{source.name}").to_pylist()}


def scored(root, source, **options) -> str:
    score_documents(HeuristicScoresConfig(sources=(source,), **options), DirectoryOut(root))
    return str(root)


def test_scores_table_is_dense_and_apart_from_decisions(tmp_path):
    source = write_documents(tmp_path, "web", [GOOD_PROSE, GOOD_CODE, "short"], num_shards=2)
    result = score_documents(HeuristicScoresConfig(sources=(source,)), DirectoryOut(tmp_path / "out"))
    for shard in shard_names(source.path):
        join_dense(read_table(source.path, shard, ["id"]), read_table(f"{tmp_path}/out/web", shard))
    table = read_all(f"{tmp_path}/out/web")
    assert table.column_names == ["id", "characters", *SCORE_NAMES]
    assert result.documents == {"web": 3}
    assert (
        result.characters
        == {"web": len(GOOD_PROSE) + len(GOOD_CODE) + 5}
        == {"web": sum(table["characters"].to_pylist())}
    )


def test_judge_from_scores_decides_as_it_does_from_texts(tmp_path):
    texts = [GOOD_PROSE, GOOD_PROSE + "\n\n" + GOOD_PROSE, GOOD_CODE, "short", GERMAN]
    source = write_documents(tmp_path, "web", texts, num_shards=2)
    languages = write_languages(
        tmp_path / "languages", source, {document_id(t): "de" if t == GERMAN else "en" for t in texts}
    )
    for name, options in (("plain", {}), ("spoken", {"languages": languages})):
        scores = scored(tmp_path / name / "scores", source, **options)
        here = judged(tmp_path / name / "here", source, **options)
        there = judged(tmp_path / name / "there", source, scores=scores, **options)
        assert there == {each: {key: row[key] for key in ("id", "keep", "reasons")} for each, row in here.items()}
        for file in ("samples.json", "quantiles.json"):
            assert (tmp_path / name / "here" / file).read_bytes() == (tmp_path / name / "there" / file).read_bytes()


def test_judge_from_scores_with_other_limits_reads_no_text(tmp_path):
    source = write_documents(tmp_path, "web", [GOOD_PROSE, "short"])
    scores = scored(tmp_path / "scores", source)
    ids = read_table(source.path, "part-00000.parquet")
    blind = ids.set_column(
        1, "text", pa.array(["not what was scored"] * len(ids))
    )  # its ids no longer fit: reading it fails
    write_table(f"{source.path}/part-00000.parquet", blind)
    strict = Preset(name="prose", limits=(Limit(score="gopher_words", minimum=1000),))
    kept = {
        each: row["keep"] for each, row in judged(tmp_path / "a", source, scores=scores, samples_per_reason=0).items()
    }
    assert kept == {document_id(GOOD_PROSE): True, document_id("short"): False}
    found = judged(tmp_path / "b", source, scores=scores, presets=(strict,), samples_per_reason=0)
    assert not any(row["keep"] for row in found.values())


def test_judge_from_scores_of_other_documents_is_refused(tmp_path):
    source, other = (write_documents(tmp_path / name, "web", [name, "b"]) for name in ("one", "two"))
    scores = scored(tmp_path / "scores", other)
    with pytest.raises(StepFailed, match=r"scores/web/part-00000\.parquet: row .* made from other documents"):
        judged(tmp_path / "out", source, scores=scores)
    languages = write_languages(tmp_path / "languages", other, {document_id(text): "de" for text in ("two", "b")})
    with pytest.raises(StepFailed, match=r"languages/web/part-00000\.parquet: row .* made from other documents"):
        judged(tmp_path / "out", source, languages=languages)


def test_judge_prose_of_every_kind_of_script_is_kept_in_its_language_and_not_as_english(tmp_path):
    source = write_documents(tmp_path, "web", list(TEXTS.values()), num_shards=2)
    identify_languages(LanguageConfig(sources=(source,)), DirectoryOut(tmp_path / "languages"))
    spoken = judged(tmp_path / "spoken", source, languages=f"{tmp_path}/languages")
    assert {language: spoken[document_id(text)]["reasons"] for language, text in TEXTS.items()} == dict.fromkeys(
        TEXTS, ""
    )
    english = judged(tmp_path / "english", source)
    assert {language for language, text in TEXTS.items() if english[document_id(text)]["keep"]} == {"en"}


@pytest.mark.parametrize("language", TEXTS)
def test_judge_repeated_and_short_texts_go_in_every_language(tmp_path, language):
    text = TEXTS[language]
    texts = ["\n\n".join([text] * 3), text[:40]]
    source = write_documents(tmp_path, "web", texts)
    languages = write_languages(tmp_path / "languages", source, {document_id(each): language for each in texts})
    found = judged(tmp_path / "out", source, languages=languages)
    assert "gopher_duplicate_paragraphs: 0.67 > 0.3" in found[document_id(texts[0])]["reasons"]
    assert "gopher_duplicate_10gram: " in found[document_id(texts[0])]["reasons"]
    assert "gopher_words: " in found[document_id(texts[1])]["reasons"]


def test_judge_counts_what_one_rule_alone_removes(tmp_path):
    source = write_documents(
        tmp_path, "web", [GOOD_PROSE + " Lorem ipsum.", GOOD_PROSE + " {x}. Lorem ipsum.", GOOD_PROSE]
    )
    result = judge_documents(HeuristicsConfig(sources=(source,), preset_by_source={}), DirectoryOut(tmp_path / "out"))
    assert result.removed_by_rule == {"web": {"c4_lorem_ipsum": 2, "c4_curly_brackets": 1}}
    assert result.removed_by_one_rule == {"web": {"c4_lorem_ipsum": 1}}
    assert set(json.loads((tmp_path / "out/samples.json").read_text())) == {"c4_lorem_ipsum", "c4_curly_brackets"}


@pytest.mark.parametrize("preset", [PROSE, CODE, REFERENCE, STARCODER], ids=lambda preset: preset.name)
@pytest.mark.parametrize("language", ["en", "zh", "th", "ko", "vi", "und", "xx"])
def test_language_rules_only_take_away_or_widen(preset, language):
    before = {limit.score: limit for limit in preset.limits}
    for limit in preset_in(preset, language, LANGUAGE_RULES, STOP_WORDS).limits:
        old = before[limit.score]
        assert (limit.minimum is None) == (old.minimum is None) and (limit.maximum is None) == (old.maximum is None)
        assert limit.minimum is None or limit.minimum <= old.minimum
        assert limit.maximum is None or limit.maximum >= old.maximum
    if language == "en":
        assert preset_in(preset, language, LANGUAGE_RULES, STOP_WORDS) == preset


def test_language_rule_of_unknown_score_and_too_many_stop_words_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"LanguageRule\.without: \['gopher_wrods'\] are no scores"):
        LanguageRule(languages=("de",), without=("gopher_wrods",))
    source = write_documents(tmp_path, "web", ["a"])
    with pytest.raises(ConfigError, match="65 of 'de'; 64 at most"):
        HeuristicScoresConfig(sources=(source,), stop_words={"de": tuple(f"w{n}" for n in range(65))})
