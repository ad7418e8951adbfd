"""Which fields of a data set are question, choices and answer, as a task of lm-eval-harness says by its templates."""

import re
from typing import Any

from marin_exec import ConfigError
from steps.decontaminate.harness_yaml import Tagged
from steps.decontaminate.item_fields import ItemFields

PASSAGES = ("passage", "context", "story", "article", "paragraph", "document", "support", "premise")
"""Names that data sets give to the text that a question is about."""
_CHOICE = re.compile(r"choices|options|[A-F]|(choice|option|opt)_?[a-fA-F0-9]|sol[12]|ending\d", re.ASCII)
_ANSWERS = ("answer", "target", "label")
"""What few-shot examples show behind a question; test items are asked without."""
_NAME = re.compile(r"[A-Za-z_]\w*")


def fields_of_task(task: dict[str, Any], where: str) -> ItemFields:
    """Returns the fields that a task's templates name, in the order in which they occur.

    What `doc_to_text` shows is the question, or, by its name, a passage or a choice; `doc_to_choice` and `doc_to_target` name
    choices and answer. Where `doc_to_text` is Python code, `doc_to_decontamination_query` is taken, if the task has it.

    Raises:
        ConfigError: the question is made by Python code, or names no field.
    """
    asked = _variables(task.get("doc_to_text"), where)
    if asked is None:
        asked = _variables(task.get("doc_to_decontamination_query"), where) or None
    choices = _variables(task.get("doc_to_choice"), where) or []
    if not asked and not choices:
        raise ConfigError(
            f"{where}: doc_to_text is {task.get('doc_to_text')!r}, which names no field"
            f"{' (Python code is not run)' if asked is None else ''}; name them, fields=ItemFields(question=(...), ...)"
        )
    asked = asked or choices  # sentences to choose from, and nothing else
    choices = [name for name in choices if name not in asked]
    choices += [name for name in asked if _CHOICE.fullmatch(name)]
    answer = [name for name in _variables(task.get("doc_to_target"), where) or [] if name not in (*asked, *choices)]
    answer += [name for name in asked if name in _ANSWERS]
    passage = [name for name in asked if name in PASSAGES]
    question = [name for name in asked if name not in (*passage, *choices, *answer)]
    if not question:  # all that is asked is, say, to summarise the passage
        question, passage, choices = (passage, [], choices) if passage else (asked, [], [])
    return ItemFields(question=tuple(question), choices=tuple(choices), answer=tuple(answer), passage=tuple(passage))


def _variables(template: Any, where: str) -> list[str] | None:
    """Returns the fields that a template shows; None if it is Python code, [] if it is no template (a list, a number)."""
    import jinja2
    import jinja2.meta

    if isinstance(template, Tagged):
        return None
    if not isinstance(template, str):
        return []
    if "{" not in template:
        return [template] if _NAME.fullmatch(template) else []
    environment = jinja2.Environment()
    try:
        names = jinja2.meta.find_undeclared_variables(environment.parse(template))
    except jinja2.TemplateError as error:
        raise ConfigError(f"{where}: {template!r} is not a template ({error}); name the fields instead") from error
    return sorted(names, key=template.index)
