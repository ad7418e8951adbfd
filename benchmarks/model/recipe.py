"""The 535B recipe: its figures against the published ones, its price, and what planning it at full scale costs on this machine.

No training. The plan is made in a fresh store; what a laptop can run of the experiment is run in this process's children.
"""

import sys
import tempfile
from pathlib import Path

from benchmarks.bounded import run_bounded
from benchmarks.figures import Figures
from steps.recipe.hero import HERO_535B
from steps.recipe.hero_price import HERO_ASSUMPTIONS
from steps.recipe.hero_statements import hero_statements
from steps.recipe.lint import counts, lint
from steps.recipe.price import price

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = str(Path(sys.executable).parent / "marin-exec")
EXPERIMENT = str(ROOT / "experiments" / "hero_535b.py")


def main() -> int:
    figures = Figures()
    said = hero_statements()
    held = sum(each.check(HERO_535B.run(each.run)) is None for each in said)
    unexplained = sum(each.check(HERO_535B.run(each.run)) is not None and not each.remark for each in said)
    figures.add("public figures of the recipe", len(said), "figures")
    figures.add("public figures that hold to their last digit", held, "figures", at_least=71)
    figures.add("public figures that do not hold, without a reason", unexplained, "figures", at_most=0)
    for severity, number in counts(lint(HERO_535B, said)).items():
        figures.add(f"lint of the 535B recipe: {severity}", number, "findings")
    _price(figures)
    with tempfile.TemporaryDirectory() as store:
        planned = run_bounded([PROGRAM, "plan", EXPERIMENT, "--prefix", store])
        figures.add("steps planned in a fresh store", int(planned.printed.splitlines()[-1].split()[0]), "steps")
        figures.add("that plan, process and imports included", planned.cpu_seconds, "CPU s", at_most=10)
        until = [argument for name in ("recipe/price", "recipe/lint") for argument in ("--until", name)]
        ran = run_bounded([PROGRAM, "run", EXPERIMENT, "--prefix", store, "--backend", "local", *until])
        figures.add("price and lint as steps, process and imports included", ran.cpu_seconds, "CPU s", at_most=10)
    return figures.exit_code


def _price(figures: Figures) -> None:
    cost = price(HERO_535B, HERO_ASSUMPTIONS)
    *_, large = cost.runs
    figures.add("large run", large.days, "days")
    figures.add("large run", large.chip_hours, "chip hours")
    figures.add("large run: one checkpoint", large.checkpoint_bytes / 1e12, "TB")
    figures.add("token store", cost.token_store_bytes / 1e12, "TB")
    figures.add("ladder over large run, without output head", cost.ladder_share["published"], "share of FLOPs")
    figures.add("ladder over large run, with output head", cost.ladder_share["published_with_head"], "share of FLOPs")


if __name__ == "__main__":
    raise SystemExit(main())
