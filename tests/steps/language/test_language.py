"""The step documents/language: against py3langid itself, on texts of many languages, and as a dense table."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marin_exec import ConfigError, IdentityMismatch
from steps.documents import document_id, join_dense, read_all, read_table, shard_names
from steps.language.language import LanguageConfig, identify_languages, languages_of
from steps.language.model import NO_LANGUAGE, VARIETIES, load_model, probabilities
from tests.directory_out import DirectoryOut
from tests.steps.decontaminate.document_sets import write_documents

PINNED = LanguageConfig.model
TEXTS = {
    "ar": "يمكنك تغيير حجم النافذة بسحب حوافها، أو عن طريق لوحة المفاتيح.",
    "cs": "Okno můžete přesunout tak, že ho chytíte za záhlaví a přetáhnete jinam.",
    "de": "Das Fenster lässt sich verschieben, indem man es an der Titelleiste fasst und zieht.",
    "el": "Μπορείτε να μετακινήσετε το παράθυρο σύροντας τη γραμμή τίτλου του.",
    "en": "You can move the window by taking hold of its title bar and dragging it elsewhere.",
    "es": "Puede mover la ventana si agarra la barra de título y la arrastra a otro sitio.",
    "fi": "Voit siirtää ikkunaa tarttumalla sen otsikkopalkkiin ja vetämällä sitä.",
    "fr": "Vous pouvez déplacer la fenêtre en saisissant sa barre de titre et en la faisant glisser.",
    "he": "אפשר להזיז את החלון על ידי אחיזה בשורת הכותרת וגרירה שלה למקום אחר.",
    "hi": "आप शीर्षक पट्टी को पकड़कर खिड़की को दूसरी जगह ले जा सकते हैं।",
    "hu": "Az ablakot úgy helyezheti át, hogy a címsoránál fogva elhúzza.",
    "ja": "タイトルバーをつかんでドラッグすると、ウィンドウを移動できます。",
    "ko": "제목 표시줄을 잡고 끌면 창을 다른 곳으로 옮길 수 있습니다.",
    "pl": "Okno można przesunąć, chwytając jego pasek tytułu i przeciągając go.",
    "ru": "Окно можно переместить, если взять его за заголовок и перетащить.",
    "sv": "Du kan flytta fönstret genom att ta tag i titelraden och dra det någon annanstans.",
    "ta": "தலைப்புப் பட்டையைப் பிடித்து இழுத்து சாளரத்தை நகர்த்தலாம்.",
    "th": "คุณสามารถย้ายหน้าต่างได้โดยลากแถบชื่อเรื่องไปยังตำแหน่งอื่น",
    "tr": "Pencereyi başlık çubuğundan tutup sürükleyerek taşıyabilirsiniz.",
    "vi": "Bạn có thể di chuyển cửa sổ bằng cách kéo thanh tiêu đề của nó đi nơi khác.",
    "zh": "您可以拖动标题栏,把窗口移到其他地方,也可以改变它的大小。",
}
TABLE = "\n".join(" ".join(str((row * 7919 + column * 104729) % 99991) for column in range(6)) for row in range(20))


def identify(root, sources, **options):
    root.mkdir(parents=True, exist_ok=True)
    return identify_languages(LanguageConfig(sources=tuple(sources), **options), DirectoryOut(root))


@pytest.fixture(scope="module")
def reference():
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    known = {*load_model(PINNED).labels, *VARIETIES}
    identifier.set_languages([each for each in identifier.labels if each in known])
    return identifier


@settings(max_examples=60)
@given(
    text=st.one_of(
        st.text(max_size=200),
        st.lists(st.sampled_from([*TEXTS.values(), TABLE, "ABC DEF"]), max_size=4).map("\n".join),
    )
)
def test_probabilities_equal_those_of_py3langid(reference, text):
    model = load_model(PINNED)
    wanted = dict.fromkeys(model.labels, 0.0)
    for name, probability in reference.rank(text):
        wanted[VARIETIES.get(name, name)] += probability
    found = probabilities(model, [text])[0]
    assert found.sum() == pytest.approx(1)
    assert np.abs(found - np.array([wanted[label] for label in model.labels])).max() < 2e-4


@given(texts=st.lists(st.sampled_from([*TEXTS.values(), "", "42", "\u0000", TABLE]), max_size=8))
@settings(max_examples=20)
def test_probabilities_do_not_depend_on_the_texts_beside(texts):
    model = load_model(PINNED)
    together = probabilities(model, texts)
    assert together.shape == (len(texts), len(model.labels))
    for row, text in zip(together, texts, strict=True):
        assert np.array_equal(row, probabilities(model, [text])[0])


def test_languages_of_plain_sentences_are_found():
    assert languages_of(load_model(PINNED), list(TEXTS.values()))["language"].tolist() == list(TEXTS)


@pytest.mark.parametrize(
    "text", ["", " ", "42", "!!!", "\u200b", TABLE, "QmFzZTY0IGVuY29kZWQgZGF0YQ==" * 20, "0x1f 0xff\n" * 20]
)
def test_languages_of_text_in_no_language_are_undetermined(text):
    columns = languages_of(load_model(PINNED), [text])
    assert columns["language"].tolist() == ["und"]
    assert columns["likeliest_language"][0] != "und" and 0 <= columns["language_score"][0] <= 1


def test_languages_of_text_with_a_run_of_another_language_shows_both():
    columns = languages_of(load_model(PINNED), [f"{TEXTS['fr']} {TEXTS['de']}"])
    assert {columns["likeliest_language"][0], columns["second_language"][0]} == {"fr", "de"}
    assert columns["language_score"][0] >= columns["second_score"][0] > 0


def test_languages_composed_and_decomposed_spelling_score_the_same():
    import unicodedata

    model = load_model(PINNED)
    composed, decomposed = (unicodedata.normalize(form, TEXTS["vi"]) for form in ("NFC", "NFD"))
    assert composed != decomposed
    assert np.array_equal(probabilities(model, [composed]), probabilities(model, [decomposed]))


def test_identify_table_is_dense_and_counts_agree(tmp_path):
    texts = [*TEXTS.values(), TABLE]
    sources = [
        write_documents(tmp_path, "help", texts, num_shards=3),
        write_documents(tmp_path, "more", [TEXTS["de"] + " Ja.", TEXTS["en"] + " Yes."]),
    ]
    result = identify(tmp_path / "out", sources, samples_per_language=1)
    for source in sources:
        table = f"{tmp_path}/out/{source.name}"
        assert shard_names(table) == shard_names(source.path)
        for shard in shard_names(table):
            join_dense(read_table(source.path, shard, ["id"]), read_table(table, shard))
    rows = {row["id"]: row for row in read_all(f"{tmp_path}/out/help").to_pylist()}
    assert {language: rows[document_id(text)]["language"] for language, text in TEXTS.items()} == {
        each: each for each in TEXTS
    }
    assert rows[document_id(TABLE)]["language"] == "und" and rows[document_id(TABLE)]["no_language_score"] > 0.9
    assert result.documents == {"help": dict.fromkeys([*sorted([*TEXTS, "und"])], 1), "more": {"de": 1, "en": 1}}
    assert result.characters["help"]["de"] == len(TEXTS["de"])
    samples = json.loads((tmp_path / "out/samples.json").read_text())
    assert list(samples) == sorted([*TEXTS, "und"]) and all(len(each) == 1 for each in samples.values())
    assert samples["th"][0]["text"] == TEXTS["th"] and samples["th"][0]["source"] == "help"


def test_identify_bytes_do_not_depend_on_the_run(tmp_path):
    source = write_documents(tmp_path, "help", list(TEXTS.values()), num_shards=2)
    trees = []
    for name in ("a", "b"):
        result = dataclasses.asdict(identify(tmp_path / name, [source]))
        result.pop("seconds")
        files = [path for path in sorted((tmp_path / name).rglob("*")) if path.is_file()]
        trees.append((result, {str(path.relative_to(tmp_path / name)): path.read_bytes() for path in files}))
    assert trees[0] == trees[1]


def test_identify_only_given_languages_are_considered(tmp_path):
    model = load_model(PINNED, ("de", "nl"))
    assert model.labels == ("de", "nl", NO_LANGUAGE)
    assert languages_of(model, [TEXTS["sv"], TEXTS["de"]])["likeliest_language"].tolist()[1] == "de"
    source = write_documents(tmp_path, "help", [TEXTS["fr"]])
    result = identify(tmp_path / "out", [source], languages=("de", "nl"))
    assert set(result.documents["help"]) <= {"de", "nl", "und"}


def test_identify_unknown_language_or_model_is_refused_before_any_shard_runs(tmp_path):
    source = write_documents(tmp_path, "help", [TEXTS["de"]])
    with pytest.raises(ConfigError, match=r"\['xx'\] are not known; the model knows af, am, "):
        identify(tmp_path / "out", [source], languages=("de", "xx"))
    with pytest.raises(IdentityMismatch, match=r"py3langid 0\.4\.0 is installed; py3langid==0\.3\.0 is wanted"):
        identify(tmp_path / "out", [source], model="py3langid==0.3.0")
    with pytest.raises(ConfigError, match=r"LanguageConfig\.languages is empty"):
        LanguageConfig(sources=(source,), languages=())
    assert not (tmp_path / "out/help").exists()
