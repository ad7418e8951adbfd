import re
from dataclasses import dataclass
from typing import Any

import pytest

from marin_exec import ConfigError
from steps.config_checks import check_choice, check_number, check_sources
from steps.documents import NamedInput


@dataclass(frozen=True, kw_only=True)
class Settings:
    share: Any = 0.5
    form: Any = "a"
    sources: Any = ()


@pytest.mark.parametrize("share", [0, 0.5, 1, 1.0, None, "not a number: the engine says so", True])
def test_check_number_inside_or_not_its_business_passes(share):
    check_number(Settings(share=share), "share", low=0, high=1)


@pytest.mark.parametrize(
    ("share", "bounds", "allowed"),
    [
        (-0.1, {"low": 0, "high": 1}, "at least 0 and at most 1"),
        (1.1, {"low": 0, "high": 1}, "at least 0 and at most 1"),
        (0, {"above": 0}, "above 0"),
        (1, {"below": 1}, "below 1"),
        (float("nan"), {"low": 0}, "at least 0"),
        (2_000, {"high": 1_000}, "at most 1,000"),
    ],
)
def test_check_number_outside_names_class_field_value_and_bounds(share, bounds, allowed):
    with pytest.raises(ConfigError) as error:
        check_number(Settings(share=share), "share", **bounds)
    assert str(error.value) == f"Settings.share: {share!r}; a value {allowed} is needed"


def test_check_choice_lists_what_is_allowed():
    check_choice(Settings(), "form", ("a", "b"))
    with pytest.raises(ConfigError, match=r"Settings\.form: 'c'; one of 'a', 'b' is needed"):
        check_choice(Settings(form="c"), "form", ("a", "b"))


def test_check_sources_none_or_a_name_twice_is_refused():
    one, two = NamedInput(name="one", path="/x"), NamedInput(name="two", path="/y")
    check_sources(Settings(sources=(one, two)), "sources")
    with pytest.raises(ConfigError, match=r"Settings\.sources is empty"):
        check_sources(Settings(), "sources")
    with pytest.raises(ConfigError, match=r"Settings\.sources holds \['two'\] more than once"):
        check_sources(Settings(sources=(two, one, two)), "sources")


@pytest.mark.parametrize("name", ["", ".", "..", "../docs", "web/", "/web", "a//b", "a/./b"])
def test_check_sources_name_that_is_no_folder_of_its_own_is_refused(name):
    """Two names of one folder would write over each other, and ".." would leave the output."""
    with pytest.raises(ConfigError, match=rf"Settings\.sources holds a source named '{re.escape(name)}'"):
        check_sources(Settings(sources=(NamedInput(name=name, path="/x"),)), "sources")
    check_sources(Settings(sources=(NamedInput(name="web/en.2026 (new)", path="/x"),)), "sources")
