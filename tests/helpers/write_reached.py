"""Write down which figures of the budget are still above their limits: ``python -m tests.helpers.write_reached``.

A figure may only fall: what is written here is the limit of tomorrow (tests/unit/house/test_budget.py).
"""

from tests.helpers.house import PACKAGE, ROOT
from tests.unit.house.test_budget import REACHED, figures_over

HEAD = """\
# Figures of the budget (budget.tsv, budget_tests.tsv) that are still above their limits: room, figure, value.
# Written by python -m tests.helpers.write_reached; a value may only fall, and its line goes once it is within.
"""


def main():
    """Write the file anew."""
    over = figures_over(PACKAGE, "budget.tsv") | figures_over(ROOT / "tests", "budget_tests.tsv")
    lines = []
    for (room, figure), value in sorted(over.items()):
        lines.append(f"{room}\t{figure}\t{value:.1f}\n")
    REACHED.write_text(HEAD + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
