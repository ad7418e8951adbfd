"""Apache Hamilton: one generated function a step, its cache on, executed in order in one process."""

import logging
import os
import sys
from pathlib import Path

os.environ["HAMILTON_TELEMETRY_ENABLED"] = "false"

from dag import LAYERS, WIDTH, parents, report, steps
from hamilton import driver

STATE = Path(os.environ["BENCH_STATE"])


def functions() -> str:
    lines = ["from dag import body_ran, value\n"]
    for layer, number in steps():
        above = [f"s_{a}_{b}" for a, b in parents(layer, number)]
        arguments = ", ".join(f"{each}: int" for each in above)
        lines.append(
            f"def s_{layer}_{number}({arguments}) -> int:\n    body_ran()\n    return value([{', '.join(above)}])\n"
        )
    return "\n".join(lines)


def main() -> None:
    module = STATE / "generated_steps.py"
    if not module.exists():
        module.write_text(functions())
    sys.path.insert(0, str(STATE))
    import generated_steps

    logging.getLogger("hamilton").setLevel(logging.ERROR)
    built = driver.Builder().with_modules(generated_steps).with_cache(path=str(STATE / "cache")).build()
    names = [f"s_{LAYERS - 1}_{number}" for number in range(WIDTH)]
    found = built.execute(names)
    report(int(found[name]) for name in names)


if __name__ == "__main__" and "--start-only" not in sys.argv:
    main()
