"""The pages of an experiment: one for each stage that it has, each from the outputs that it names."""

import pytest

from experiments import curation
from marin_exec import ConfigError
from steps.report.stage_pages import PAGES, stage_pages


def test_curation_has_every_page():
    made = [step.name for step in curation.pipeline(curation.Params()) if step.name.startswith("report/")]
    assert made == [page.name for page in PAGES]


def test_page_whose_stage_is_not_there_is_left_out():
    assert [step.name for step in stage_pages(fuzzy="fuzzy", cards=())] == ["report/duplicates"]


def test_output_that_no_page_shows_is_refused():
    with pytest.raises(ConfigError, match=r"no page has a field for \['fuzy'\]"):
        stage_pages(fuzy="fuzzy", cards=())
