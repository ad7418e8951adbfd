"""Sections of the mixture page about small runs that stand for large ones: simulated epochs, and a weight search."""

from typing import Any

from steps.report import formats
from steps.report.blocks import Block, Column, Facts, Section, Table, Words


def simulated_section(rows: list[dict[str, Any]]) -> Section:
    """Returns what each run stands for, and what of the data it uses."""
    table = Table(
        "Runs.",
        [
            *(
                Column("run"),
                Column("tokens", "tokens"),
                Column("stands for", "tokens"),
                Column("sequences used", "count"),
            ),
            *(
                Column("of all", "percent"),
                Column("components cut to one sequence", "count"),
                Column("subset seed", "count"),
            ),
        ],
        [
            [
                *(row["run"], row["tokens"], row["stands_for_tokens"], row["sequences_used"]),
                *(row["sequences_used"] / row["sequences"], row["held_at_one"], row["subset_seed"]),
            ]
            for row in rows
        ],
    )
    lead = (
        "A run that stands for a larger one uses that share of each component, so that data repeats as often as there; one that "
        "stands for itself uses all."
    )
    return Section("simulated", "Simulated epochs", lead, [table])


def search_section(values: dict[str, Any]) -> Section:
    """Returns the candidate's predicted and measured gain, and what it moves."""
    found, measured = values["candidate"], values["gain"]
    facts = [_gain("predicted gain", found["predicted_gain"], found["predicted_gain_deviation"])]
    if measured is not None:
        facts.append(_gain("measured gain", measured["gain"], measured["gain_error"]))
    if found["distance_to_mixture"] is not None:
        facts.append(
            ("this mixture differs by", formats.percent(found["distance_to_mixture"]), "of the run from the candidate")
        )
    said = []
    if measured is not None:
        agree = "agree" if measured["within_prediction"] else "do not agree"
        seeds = ", ".join(map(str, measured["seeds"]))
        said.append(
            f"Prediction and measurement {agree} within 1.96 times both errors together. The measured runs have seeds {seeds}, "
            f"which the search had not seen."
        )
    moved = Table(
        "Cells whose share of the run changes most.",
        [Column("cell"), Column("proportional", "percent"), Column("candidate", "percent"), Column("times", "short")],
        [
            [
                *(row["cell"], row["proportional"], row["candidate"]),
                row["candidate"] / row["proportional"] if row["proportional"] else None,
            ]
            for row in found["moved"]
        ],
    )
    blocks: list[Block] = [Facts(facts), Words(said), moved]
    if measured is not None:
        columns = [Column("held-out set"), Column("gain, nats a token", "signed")]
        by_set = [list(each) for each in measured["gain_by_set"].items()]
        blocks.append(Table("Measured by held-out set.", columns, by_set))
    lead = "Gain: held-out macro loss of a proxy run on the proportional mixture less that on the candidate; above 0 is better."
    return Section("search", "Weight search", lead, blocks)


def _gain(name: str, value: float, error: float) -> tuple[str, str, str]:
    return (name, formats.signed(value), f"± {error:.3f} nats a token")
