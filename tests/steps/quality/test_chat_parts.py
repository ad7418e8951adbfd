"""Answers of chat endpoints that come in parts, or in no form that is known."""

import pytest

from marin_exec import StepFailed
from steps.quality.chat import _answer_text


def answer(content: object) -> dict[str, object]:
    return {"choices": [{"message": {"content": content}}]}


def test_answer_in_parts_is_joined():
    assert (
        _answer_text(answer([{"type": "text", "text": '{"score"'}, {"type": "text", "text": ": 4}"}]), "u")
        == '{"score": 4}'
    )


@pytest.mark.parametrize("content", [["a"], {"no": "list"}.keys()])
def test_answer_of_no_known_form_is_refused_with_what_came(content):
    with pytest.raises(StepFailed, match=r"POST u: the answer has no choices\[0\]\.message\.content"):
        _answer_text({"choices": [{"message": {"content": content}}]} if isinstance(content, list) else {}, "u")
