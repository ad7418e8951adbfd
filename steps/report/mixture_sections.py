"""Lays the values of the mixture page out in sections: weights by phase, epochs against the cap, rounding, blocks."""

from dataclasses import replace
from typing import Any

from marin_exec.wording import some_of
from steps.report import formats
from steps.report.blocks import Block, Chart, Column, Facts, Section, Table, Words
from steps.report.charts import Axis, Series, line_chart
from steps.report.search_sections import search_section, simulated_section
from steps.report.tokens_sections import bytes_section, store_section, tokenizer_section

_MOST_COMPONENTS = 60
_MOST_LINES = 4
_MOST_NAMED = 400


def sections(values: dict[str, Any]) -> list[Section]:
    """Returns the whole page."""
    found = [_weights(values), _rounding(values), _blocks(values)]
    found += [simulated_section(values["simulated"])] if values["simulated"] else []
    found += [search_section(values)] if values["candidate"] is not None else []
    return [*found, tokenizer_section(values), store_section(values), bytes_section(values)]


def _phases(mixture: dict[str, Any]) -> list[str]:
    return [f"from {start:.0%}" for start in mixture["phase_starts"]]


def _weights(values: dict[str, Any]) -> Section:
    mixture, rows = values["mixture"], values["components"]
    largest = mixture["largest_budget"]
    columns = [
        *(Column("component"), Column("tokens", "tokens"), Column("sequences", "count")),
        *(Column(f"weight {phase}", "percent") for phase in _phases(mixture)),
        *(Column(f"a block {phase}", "count") for phase in _phases(mixture)),
        *(Column("epochs", "short"), Column("of the cap", "whole_percent"), Column("remarks")),
    ]
    listed = [
        [
            *(row["name"], row["tokens"], row["sequences"], *row["weights"], *row["counts"], row["epochs"][largest]),
            *(row["epochs"][largest] / mixture["max_epochs"], remarks(row)),
        ]
        for row in rows
    ]
    budget = formats.tokens(max(mixture["budgets_tokens"]))
    caption = f"Components, most repeated first, under the largest budget of {budget} tokens."
    table = Table(caption, columns, listed, most_rows=_MOST_COMPONENTS)
    said = [
        f"Held at the cap: {', '.join(mixture['capped'])}." if mixture["capped"] else "No component is held at the cap."
    ]
    if mixture["unused_cells"]:
        said.append(f"Without weight in any phase: {', '.join(mixture['unused_cells'])}.")
    lead = "Weights are shares of a phase's sequences; a block holds whole numbers of them; epochs are what a run then draws."
    chart = Chart(
        "Epochs", _epochs_chart(values), "Components by how often they are seen, for each budget; broken: the cap."
    )
    blocks: list[Block] = [Facts(_facts(values, largest)), Words(said), chart, table]
    if mixture["config"]:
        fields = [list(each) for each in mixture["config"].items()]
        blocks.append(Table("How the weights came about.", [Column("field"), Column("value")], fields))
    return Section("weights", "Weights and epochs", lead, blocks)


def _facts(values: dict[str, Any], largest: int) -> list[tuple[str, str, str]]:
    mixture, rows = values["mixture"], values["components"]
    seen = [row["epochs"][largest] for row in rows if any(row["counts"])]
    in_sequences = formats.percent(mixture["tokens_in_sequences"] / mixture["tokens"])
    return [
        ("components", formats.count(len(rows)), f"of {len(values['store']['by_cell']):,} cells"),
        ("most repeated", f"{max(seen):.2f} epochs", f"{rows[0]['name']}; the cap is {mixture['max_epochs']:g}"),
        ("least seen", f"{min(seen):.3f} epochs", "of what has sequences in a block"),
        ("held at the cap", formats.count(len(mixture["capped"])), "what they gave up went to the others"),
        ("tokens in sequences", in_sequences, "the ends of components make no whole one"),
    ]


def remarks(row: dict[str, Any]) -> str:
    """Returns what is odd about a component: the cap, rounding, phases in which it is not seen."""
    none = [
        phase
        for phase, (weight, count) in enumerate(zip(row["weights"], row["counts"], strict=True))
        if weight and not count
    ]
    found = [
        "at the cap" if row["capped"] else "never rounded up" if row["rounded_down"] else "",
        f"{len(row['cells'])} cells" if len(row["cells"]) > 1 else "",
        f"not seen in phase {', '.join(map(str, none))}" if none else "",
        "no weight" if not any(row["weights"]) else "",
    ]
    return "; ".join(part for part in found if part)


def _epochs_chart(values: dict[str, Any]) -> Any:
    mixture = values["mixture"]
    budgets = sorted(range(len(mixture["budgets_tokens"])), key=lambda at: -mixture["budgets_tokens"][at])[:_MOST_LINES]
    lines = []
    for order, at in enumerate(budgets):
        epochs = sorted((row["epochs"][at] for row in values["components"]), reverse=True)
        steps = [(float(x), each) for place, each in enumerate(epochs) for x in (place, place + 1)]
        name = formats.tokens(mixture["budgets_tokens"][at])
        lines.append(Series(name=name, style="hero" if not order else f"rung-{order - 1}", points=steps, label=name))
    drawn = [y for line in lines for _, y in line.points if y > 0]
    low, high = min(drawn) / 1.3, 1.2 * max(mixture["max_epochs"], *drawn)
    lines = [replace(line, points=[(x, max(y, low)) for x, y in line.points]) for line in lines]
    return line_chart(
        lines,
        title="Epochs of components",
        x=Axis(
            label="components, most repeated first",
            format=formats.short,
            low=0.0,
            high=float(len(values["components"])),
        ),
        y=Axis(label="epochs", format=formats.short, low=low, high=high, log=True),
        references=[(mixture["max_epochs"], f"cap {mixture['max_epochs']:g}")],
    )


def _rounding(values: dict[str, Any]) -> Section:
    mixture, zero, tail = values["mixture"], values["got_zero"], values["tail"]
    moved = ", ".join(
        f"{formats.percent(share)} {phase}"
        for share, phase in zip(mixture["moved_by_rounding"], _phases(mixture), strict=True)
    )
    said = [
        f"Weights are rounded to multiples of 1/{mixture['block_sequences']:,} by largest remainder; that moves {moved}.",
        f"{len({row['cell'] for row in zero})} cells have weight in a phase and get no sequence of its blocks."
        if zero
        else "Every cell that has weight is drawn in every phase in which it has it.",
    ]
    if mixture["rounded_down"]:
        said.append(
            f"Never rounded up, for one more sequence could pass the cap: {', '.join(mixture['rounded_down'])}."
        )
    zeros = Table(
        "Got zero: a weight that is worth so many sequences a block, and no sequence.",
        [
            Column("cell"),
            Column("in"),
            Column("phase"),
            Column("wanted a block", "short"),
        ],
        [[row["cell"], row["component"], _phases(mixture)[row["phase"]], row["sequences_wanted"]] for row in zero],
    )
    together = [each["cell"] for each in tail]
    named = (
        f"{len(tail):,} cells are drawn together, as the tail: {some_of(together, _MOST_NAMED)}."
        if tail
        else "There is no tail."
    )
    small = Table(
        "Cells of the tail: too small to stand alone, and drawn in proportion to their tokens.",
        [Column("cell"), Column("tokens", "tokens"), Column("sequences", "count"), Column("why")],
        [list(row.values()) for row in tail],
        most_rows=20,
    )
    return Section("rounding", "Rounding, and what got nothing", "", [Words(said), zeros, Words([named]), small])


def _blocks(values: dict[str, Any]) -> Section:
    mixture = values["mixture"]
    rows = [
        [
            *(formats.tokens(row["budget_tokens"]), row["sequences"]),
            *(f"{whole:,} blocks" + (f" + {rest:,} sequences" if rest else "") for whole, rest in row["phases"]),
            *(row["components_drawn"], row["least"], row["most"]),
        ]
        for row in values["blocks"]
    ]  # fmt: skip
    table = Table(
        "Runs that the mixture is for.",
        [
            *(Column("budget, tokens", "figure"), Column("sequences", "count")),
            *(Column(phase) for phase in _phases(mixture)),
            *(Column("components drawn", "count"), Column("least epochs", "short"), Column("most epochs", "short")),
        ],
        rows,
    )
    block, length = mixture["block_sequences"], mixture["sequence_length"]
    lead = (
        f"A block is {block:,} sequences of {length:,} tokens, shuffled within; a phase ends with a shorter one, whose sequences "
        f"are given out by largest remainder."
    )
    missed = [
        f"A run of {formats.tokens(row['budget_tokens'])} tokens draws nothing of {', '.join(row['not_drawn'])}: it is too short."
        for row in values["blocks"]
        if row["not_drawn"]
    ]
    said = missed or ["Each run draws every component that has sequences in a block."]
    return Section("blocks", "Blocks", lead, [table, Words(said)])
