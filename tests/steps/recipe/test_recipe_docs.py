"""The tables of docs/recipe.md are those of the code; run as a script (`PYTHONPATH=. python FILE`), this writes them anew."""

import re
from pathlib import Path

from steps.recipe.hero import HERO_535B
from steps.recipe.hero_price import HERO_ASSUMPTIONS
from steps.recipe.hero_statements import hero_statements
from steps.recipe.lint import lint
from steps.recipe.price import price
from steps.recipe.tables import context_table, findings_table, price_lines, price_table, shape_table, training_table

PAGE = Path(__file__).resolve().parents[3] / "docs" / "recipe.md"
_TABLE = re.compile(r"<!-- table: (\w+) -->\n(?:\n(?:[|*] .*\n)+)*")


def tables():
    cost = price(HERO_535B, HERO_ASSUMPTIONS)
    lines = "".join(f"* {line}\n" for line in price_lines(cost))
    return {
        "shape": shape_table(HERO_535B),
        "training": training_table(HERO_535B),
        "context": context_table(HERO_535B, (4096, 8192, 16_384, 65_536)),
        "price": f"{price_table(cost)}\n{lines}",
        "lint": findings_table(lint(HERO_535B, hero_statements())),
    }


def with_tables(text):
    made = tables()
    return _TABLE.sub(lambda match: f"<!-- table: {match[1]} -->\n\n{made[match[1]]}", text)


def test_tables_of_the_page_are_those_of_the_code():
    text = PAGE.read_text()
    assert set(_TABLE.findall(text)) == set(tables())
    assert with_tables(text) == text


def test_page_says_how_many_statements_hold():
    held = sum(each.check(HERO_535B.run(each.run)) is None for each in hero_statements())
    assert (
        f"with the {len(hero_statements())} public figures of\n`hero_statements`, of which {held} hold"
        in PAGE.read_text()
    )


def test_figures_in_the_example_are_right():
    run = HERO_535B.run("d2048")
    shown = [f"{run.active_parameters:_}", f"{run.horizon.num_steps:_}", f"{run.rates.hyperball_at(100):.5f}"]
    assert all(f"# {each}\n" in PAGE.read_text() for each in shown)


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
