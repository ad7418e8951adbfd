"""The source that is the environment's own text, on made distributions and on the real ones."""

import base64
import hashlib
import json
import re
from collections import Counter
from pathlib import Path

import pytest
import xxhash

from marin_exec import ConfigError, IdentityMismatch, StepFailed
from steps.documents import document_id
from steps.normalize.normalize import NormalizeConfig, normalize
from steps.sources.environment import EnvironmentConfig, EnvironmentResult, environment_texts
from steps.sources.environment_default import ALL_DISTRIBUTIONS, default_sources
from steps.sources.raw import RawDocument, read_raw
from tests.directory_out import DirectoryOut

METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nLicense-Expression: MIT\n\n# {name}\n\nWhat it is.\n"


@pytest.fixture
def site(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return folder


def install(site: Path, name: str, files: dict[str, str | bytes], unhashed: dict[str, str] | None = None) -> str:
    """Lays a distribution out as an installer does, and returns its literal."""
    info = f"{name}-1.0.dist-info"
    files = {**files, f"{info}/METADATA": METADATA.format(name=name)}
    record = []
    for path, content in {**files, **(unhashed or {})}.items():
        content = content.encode() if isinstance(content, str) else content
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_bytes(content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record.append(f"{path},sha256={digest},{len(content)}" if path in files else f"{path},,")
    (site / info / "RECORD").write_text("\n".join([*record, f"{info}/RECORD,,", ""]))
    return f"{name}==1.0"


def extracted(folder: Path, *distributions: str, **config) -> tuple[EnvironmentResult, list[RawDocument]]:
    config = {"min_document_bytes": 1, **config}
    out = DirectoryOut(folder / "out", "sources/x")
    result = environment_texts(EnvironmentConfig(distributions=distributions, **config), out)
    return result, list(read_raw(out.path))


def test_environment_code_reads_only_what_the_wheel_shipped(tmp_path, site):
    (site / "bin").mkdir()
    made = install(
        site,
        "madeone",
        {"madeone/a.py": "a = 1\n", "../bin/madeone.py": "script", "madeone/__pycache__/a.py": "cached"},
        unhashed={"madeone/local.py": "written by the installer"},
    )
    (site / "madeone/stray.py").write_text("not in RECORD")
    result, documents = extracted(tmp_path, made, extract="code")
    expected = {"distribution": made, "license": "MIT", "line": 1, "path": "madeone/a.py"}
    assert documents == [RawDocument("madeone/a.py", "a = 1\n", json.dumps(expected))]
    assert (result.documents, result.num_bytes, result.files_used) == (1, 6, 1)


def test_environment_manifest_lists_every_file_used(tmp_path, site):
    names = [install(site, f"made{index}", {f"made{index}/a.py": f"a = {index}\n"}) for index in range(20)]
    result, _ = extracted(tmp_path, *names, extract="code")
    content = (tmp_path / "out/manifest.json").read_bytes()
    listed = {(entry["distribution"], entry["path"]): entry for entry in json.loads(content)["files"]}
    assert len(listed) == result.files_used == 20
    assert listed[names[7], "made7/a.py"]["xxh3_128"] == xxhash.xxh3_128_hexdigest(b"a = 7\n")
    assert result.manifest_digest == xxhash.xxh3_128_hexdigest(content)
    assert result.documents_found_by_distribution == dict.fromkeys(sorted(names), 1)


def test_environment_other_version_is_a_mismatch_that_says_what_to_do(tmp_path, site):
    install(site, "madeold", {"madeold/a.py": "a = 1\n"})
    with pytest.raises(
        IdentityMismatch, match=r"madeold 1\.0 is installed; madeold==2\.0 is wanted\. Install from requirements"
    ):
        extracted(tmp_path, "madeold==2.0", extract="code")
    with pytest.raises(IdentityMismatch, match="madenever is not installed"):
        extracted(tmp_path, "madenever==1.0", extract="code")


@pytest.mark.parametrize(("change", "message"), [("edit", "differs from the checksum"), ("remove", "missing")])
def test_environment_file_changed_after_install_is_a_mismatch(tmp_path, site, change, message):
    made = install(site, "madeedited", {"madeedited/a.py": "a = 1\n"})
    file = site / "madeedited/a.py"
    if change == "edit":
        file.write_text("a = 2\n")
    else:
        file.unlink()
    with pytest.raises(IdentityMismatch, match=rf"madeedited/a\.py .*{message}.*; install madeedited==1\.0 again"):
        extracted(tmp_path, made, extract="code")


def test_environment_distribution_without_record_is_a_mismatch(tmp_path, site):
    made = install(site, "madebare", {"madebare/a.py": "a = 1\n"})
    (site / "madebare-1.0.dist-info/RECORD").unlink()
    with pytest.raises(IdentityMismatch, match="no RECORD"):
        extracted(tmp_path, made, extract="code")


def test_environment_docstrings_have_qualified_names_wherever_they_are_defined(tmp_path, site):
    source = '''"""Module."""
class A:
    r"""Class \\d."""
    async def go(self):
        """Go.

        Outer.
            Indented.
        """
        def inner():
            "Inner."
if True:
    try:
        pass
    except ImportError:
        def fallback(): "Fallback."
    else:
        def chosen():
            """Chosen."""
def bare(): return "no docstring"
def number(): 3
'''
    files = {"pkg/__init__.py": source, "pkg/broken.py": "def (", "pkg/tests/test_a.py": '"""Left out."""'}
    result, documents = extracted(tmp_path, install(site, "madedocs", files), extract="docstrings")
    assert {document.source_id: document.text for document in documents} == {
        "pkg": "Module.",
        "pkg.A": r"Class \d.",
        "pkg.A.go": "Go.\n\nOuter.\n    Indented.",
        "pkg.A.go.inner": "Inner.",
        "pkg.fallback": "Fallback.",
        "pkg.chosen": "Chosen.",
    }
    assert result.left_out == {"unparsed": 1}
    assert json.loads(documents[2].metadata)["line"] == 5


def test_environment_code_declared_encoding_is_read_and_undecodable_or_generated_counted(tmp_path, site):
    files = {
        "m/latin.py": "# -*- coding: latin-1 -*-\nname = 'größe'\n".encode("latin-1"),
        "m/broken.py": b"name = '\xff'\n",
        "m/made_pb2.py": "# Generated by the protocol buffer compiler.  DO NOT EDIT!\n",
        "m/crlf.py": "a = 1\r\nb = 2\r\n",
    }
    result, documents = extracted(tmp_path, install(site, "madecode", files), extract="code")
    texts = {document.source_id: document.text for document in documents}
    assert texts == {"m/latin.py": "# -*- coding: latin-1 -*-\nname = 'größe'\n", "m/crlf.py": "a = 1\nb = 2\n"}
    assert result.left_out == {"generated": 1, "undecodable": 1}


def test_environment_readmes_docs_and_licences_are_told_apart(tmp_path, site):
    prose = "This is a paragraph of plain words that explains what the module does.\n" * 3
    files = {
        "m/README.md": prose,
        "m/table.txt": "1.0 2.0 3.5\n" * 50,
        "m/vocab.txt": prose,
        "m/words.txt": "alpha\nbeta\ngamma\n" * 20,
        "m/vendor/COPYING.txt": "Copying text.",
        "m/license.py": "x = 1",
        "madetexts-1.0.dist-info/licenses/LICENSE": "Licence text.",
    }
    made = install(site, "madetexts", files)
    found = {
        extract: {
            document.source_id: document.text for document in extracted(tmp_path / extract, made, extract=extract)[1]
        }
        for extract in ("readmes", "docs", "licences")
    }
    assert found == {
        "readmes": {"madetexts-1.0.dist-info/METADATA": "# madetexts\n\nWhat it is.\n"},
        "docs": {"m/README.md": prose},
        "licences": {
            "m/vendor/COPYING.txt": "Copying text.",
            "madetexts-1.0.dist-info/licenses/LICENSE": "Licence text.",
        },
    }


def test_environment_size_bounds_leave_out_and_count_but_never_cut(tmp_path, site):
    files = {f"m/{size}.py": "#" * size for size in (9, 10, 20, 21)} | {"m/wide.py": "#" + "ß" * 10}
    made = install(site, "madesizes", files)
    result, documents = extracted(tmp_path, made, extract="code", min_document_bytes=10, max_document_bytes=20)
    assert [len(document.text) for document in documents] == [10, 20]
    assert result.left_out == {"too_long": 2, "too_short": 1}


def test_environment_without_such_text_fails_and_names_the_distributions(tmp_path, site):
    with pytest.raises(StepFailed, match=r"sources/x: no docs of 1 to 40000 bytes in madeempty==1\.0"):
        extracted(tmp_path, install(site, "madeempty", {}), extract="docs")


@pytest.fixture
def many(site) -> list[str]:
    return [
        install(site, f"many{index}", {f"many{index}/{n}.py": f"a = {(index * 31 + n) % 150}\n" * 5 for n in range(12)})
        for index in range(20)
    ]


@pytest.mark.parametrize("budget", [{"sample_documents": 60}, {"sample_bytes": 2_000}])
def test_environment_sample_is_the_documents_with_the_lowest_hashes(tmp_path, many, budget):
    _, everything = extracted(tmp_path / "all", *many, extract="code")
    result, sampled = extracted(tmp_path / "some", *many, extract="code", seed=3, **budget)
    ranked = sorted(everything, key=lambda d: xxhash.xxh3_128_hexdigest(f"3 {document_id(d.text)}".encode()))
    texts = [document.text for document in ranked]
    if "sample_bytes" in budget:
        expected = [text for index, text in enumerate(texts) if sum(map(len, texts[: index + 1])) <= 2_000]
    else:
        expected = texts[:60]
    assert Counter(document.text for document in sampled) == Counter(expected)
    assert result.documents_found == len(everything) == 240
    assert sum(result.documents_by_distribution.values()) == result.documents == len(expected)


def test_environment_sample_does_not_depend_on_order_or_spread_of_distributions(tmp_path, many):
    _, forward = extracted(tmp_path / "a", *many, extract="code", sample_documents=50)
    _, backward = extracted(tmp_path / "b", *reversed(many), extract="code", sample_documents=50)
    assert forward == backward
    _, other_seed = extracted(tmp_path / "c", *many, extract="code", sample_documents=50, seed=1)
    assert {document.text for document in other_seed} != {document.text for document in forward}


def test_environment_sample_keeps_copies_of_a_text_together(tmp_path, many):
    _, everything = extracted(tmp_path / "all", *many, extract="code")
    _, sampled = extracted(tmp_path / "some", *many, extract="code", sample_documents=60)
    copies = Counter(document.text for document in everything)
    kept = Counter(document.text for document in sampled)
    assert max(copies.values()) > 1
    assert sum(kept[text] != copies[text] for text in kept) <= 1  # the text at the cut


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("extract", "comments"),
        ("distributions", ()),
        ("distributions", ("numpy",)),
        ("distributions", ("numpy>=2",)),
        ("distributions", ("a==1", "a==1")),
    ],
)
def test_environment_config_value_out_of_range_names_the_field(field, value):
    with pytest.raises(ConfigError, match=rf"EnvironmentConfig\.{field}: "):
        EnvironmentConfig(**{"distributions": ("numpy==2.5.5",), "extract": "code", field: value})


def test_default_sources_state_the_versions_of_the_lock():
    lock = Path(__file__).parents[3] / "requirements.lock"
    locked = set(re.findall(r"^([A-Za-z0-9._-]+==[^\s;]+)", lock.read_text(), re.MULTILINE))
    installers = {literal for literal in locked if literal.partition("==")[0] in ("setuptools", "uv")}
    joined_later = {"py3langid==0.4.0"}  # its README would change the sources, and with them every published figure
    assert set(ALL_DISTRIBUTIONS) == locked - installers - joined_later
    for name, config in default_sources().items():
        assert set(config.distributions) <= locked, name


def test_default_licences_hold_real_exact_duplicates(tmp_path):
    raw, documents = DirectoryOut(tmp_path / "raw"), DirectoryOut(tmp_path / "documents")
    found = environment_texts(default_sources()["licences"], raw)
    result = normalize(NormalizeConfig(source=raw.path), documents)
    assert result.documents_in == found.documents > 200
    assert result.exact_duplicates > 50
    apache = [row.text for row in read_raw(raw.path) if "Apache License" in row.text and "Version 2.0" in row.text]
    assert len(apache) > len(set(apache)) > 2  # copies, and texts that differ a little


@pytest.mark.slow
def test_default_sources_hold_twenty_megabytes_before_sampling(tmp_path):
    results = [environment_texts(config, DirectoryOut(tmp_path / name)) for name, config in default_sources().items()]
    assert sum(result.bytes_found for result in results) >= 20_000_000
    assert 4_000 <= sum(result.documents for result in results) <= 6_000
    assert 6_000_000 <= sum(result.num_bytes for result in results) <= 9_000_000
