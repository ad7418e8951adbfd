"""The pages of data curation: one a stage, and the data diet. A name means the same output on every page.

A page is made if everything that it cannot do without is given, so an experiment that leaves a stage out has no page of it.
"""

from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, NamedTuple

from marin_exec import ConfigError, Step
from steps.report.data_diet import DataDietConfig, data_diet
from steps.report.decontamination import DecontaminationReportConfig, decontamination_report
from steps.report.duplicates import DuplicatesReportConfig, duplicates_report
from steps.report.filters import FiltersReportConfig, filters_report
from steps.report.mixture import MixtureReportConfig, mixture_report
from steps.report.normalized import NormalizedReportConfig, normalized_report
from steps.report.quality import QualityReportConfig, quality_report
from steps.report.topics import TopicsReportConfig, topics_report


class Page(NamedTuple):
    name: str
    """Of the step."""
    function: Callable[..., Any]
    config: type
    """Its fields name the outputs that the page is made from."""


PAGES = (
    Page("report/normalized", normalized_report, NormalizedReportConfig),
    Page("report/duplicates", duplicates_report, DuplicatesReportConfig),
    Page("report/filters", filters_report, FiltersReportConfig),
    Page("report/decontamination", decontamination_report, DecontaminationReportConfig),
    Page("report/topics", topics_report, TopicsReportConfig),
    Page("report/quality", quality_report, QualityReportConfig),
    Page("report/mixture", mixture_report, MixtureReportConfig),
    Page("report/data-diet", data_diet, DataDietConfig),
)


def stage_pages(**given: Any) -> list[Step]:
    """Returns a step a page.

    Args:
        given: steps, sources and cards, under the names of the pages' config fields: fuzzy=..., cards=...

    Raises:
        ConfigError: no page has a field for one of them.
    """
    known = {each.name for page in PAGES for each in fields(page.config)}
    if unknown := sorted(set(given) - known):
        raise ConfigError(f"stage_pages: no page has a field for {unknown}; the fields are {sorted(known)}")
    steps = []
    for page in PAGES:
        own = {each.name: each.default is MISSING and each.default_factory is MISSING for each in fields(page.config)}
        if all(name in given for name, is_needed in own.items() if is_needed):
            config = page.config(**{name: given[name] for name in own if name in given})
            steps.append(Step(page.name, page.function, config))
    return steps
