"""What was said in public about the 535B run and its ladder: figures as they were printed, and why some do not hold.

Source: issue 8435 of marin-community/marin and what it links, as public in October 2026.
"""

from steps.recipe.statements import Statement

_ISSUE = "issue 8435 of marin-community/marin"
_RUN = f"{_ISSUE} and the launcher that it links"
_PROJECTION = "projection script of the run"
_LOG = "public W&B runs of the issue"

_RUNS = ("d768", "d1024", "d1536", "d2048", "d6144")
_TABLES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("active parameters", _RUN, ("60555264", "162004992", "481296384", "1170735104", "22762487808")),
    ("layers", _RUN, ("8", "12", "16", "22", "48")),
    ("training steps", _RUN, ("11420", "15276", "15128", "20072", "390251")),
    ("tokens a step", _RUN, ("4194304", "8388608", "25165824", "46137344", "46137344")),
    ("training tokens", _ISSUE, ("48e9", "128e9", "381e9", "926e9", "18.0e12")),
    ("training FLOPs", _PROJECTION, (
        "2.649679880270119e19", "1.7261182741798453e20", "1.3813258500033133e21", "7.741814947656449e21", "2.6108941613772703e24",
    )),
    ("training FLOPs with output head", _RUN, ("5.481e19", "2.736e20", "1.831e21", "9.201e21", "2.696e24")),
    ("Adam peak rate", _RUN, ("0.003651", "0.003326", "0.003436", "0.003097", "0.000759")),
    ("hyperball peak rate", _RUN, ("0.015819", "0.014411", "0.014889", "0.013422", "0.003290")),
    ("Adam epsilon", _RUN, ("1.034e-15", "1.196e-15", "1.190e-15", "1.371e-15", "6.045e-15")),
    ("Adam beta2", _RUN, ("0.9685", "0.95", "0.95", "0.95", "0.95")),
    ("warm-up steps", _RUN, ("114", "152", "151", "200", "3902")),
    ("cooldown start", _RUN, ("9120", "12216", "12096", "16032", "312192")),
)  # fmt: skip


def hero_statements() -> tuple[Statement, ...]:
    """Returns every public figure: the tables by run, then the single ones."""
    tables = [
        Statement(run=run, quantity=quantity, figure=figure, source=source)
        for quantity, source, figures in _TABLES
        for run, figure in zip(_RUNS, figures, strict=True)
    ]
    return (*tables, *_SINGLE)


_SINGLE = (
    Statement(
        run="d6144", quantity="total parameters", figure="535477106688", source="issue 9277 of marin-community/marin",
    ),
    Statement(
        run="d6144", quantity="total parameters", figure="535.3e9", source=_ISSUE,
        remark="leaves out the matrices of the gated norms: 535,322,966,016 without them",
    ),
    Statement(run="d6144", quantity="total parameters without gated norms", figure="535.3e9", source=_ISSUE),
    Statement(
        run="d6144", quantity="training steps", figure="390139", source=_ISSUE,
        remark="18e12 tokens over 46,137,344 a step, rounded down; the run is configured by 791 tokens for each active parameter",
    ),
    Statement(
        run="d6144", quantity="training tokens", figure="18.75e12", source=_ISSUE,
        remark="the reference budget of the mixture, 15T + 3.75T; 18.0T are trained",
    ),
    Statement(run="d6144", quantity="mixture budget", figure="18.75e12", source=_ISSUE),
    Statement(run="d6144", quantity="devices", figure="704", source=_ISSUE),
    Statement(
        run="d6144", quantity="devices", figure="792", source=_ISSUE,
        remark="installed: 11 racks of 72, of which 64 train",
    ),
    Statement(run="d6144", quantity="devices installed", figure="792", source=_ISSUE),
    Statement(
        run="d6144", quantity="ladder share of FLOPs", figure="0.01", source=_ISSUE,
        remark="generous rounding: 0.36 % without the output head, 0.42 % with it; more in time, since rungs ran slower",
    ),
    Statement(run="d6144", quantity="hyperball rate", at=58_020, figure="0.0028526", source=_LOG),
    Statement(
        run="d6144", quantity="hyperball rate", at=10, figure="8.4327e-6", source=_LOG,
        remark="the same if its digits were cut, not rounded",
    ),
)  # fmt: skip
