"""A helper module beside an experiment that is not part of any installed package."""

OFFSET = 40


def shifted(number: int) -> int:
    return number + OFFSET
