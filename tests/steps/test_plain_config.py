"""What a config says about itself stays as it was when fields are added to it."""

import json
from dataclasses import dataclass
from typing import Annotated

from marin_exec import added_default
from steps.plain_config import from_plain, plain_config


@dataclass(frozen=True)
class Part:
    rate: float
    added: Annotated[str, added_default("old")] = "old"


@dataclass(frozen=True)
class Whole:
    part: Part
    optional: Annotated[Part | None, added_default(None)] = None
    count: Annotated[int, added_default(1)] = 1
    sizes: Annotated[tuple[int, ...], added_default(())] = ()


def test_plain_config_leaves_out_what_was_added_and_is_not_used():
    assert plain_config(Whole(Part(0.5))) == {"part": {"rate": 0.5}}


def test_plain_config_names_what_was_added_and_is_used():
    whole = Whole(Part(0.5, "new"), Part(1.0), 2)
    assert plain_config(whole) == {"part": {"rate": 0.5, "added": "new"}, "optional": {"rate": 1.0}, "count": 2}


def test_plain_config_gives_back_the_config_it_was_made_of():
    for whole in (Whole(Part(0.5)), Whole(Part(0.5, "new"), Part(1.0), 2, (3, 4))):
        assert from_plain(Whole, json.loads(json.dumps(plain_config(whole)))) == whole
