"""The constructs that judges score, a row each: prompts, schemas, results and figures iterate over them."""

from dataclasses import dataclass

from crs_lib.core.errors import InputError, unknown


@dataclass(frozen=True)
class Construct:
    """A quality of a dialogue that judges score on a scale of whole numbers, higher is better. ``prompt``
    names the file with its question and levels; ``label`` is the name in figures, with line breaks.
    """

    name: str
    prompt: str
    lowest: int = 1
    highest: int = 5
    label: str = ""

    @property
    def scale(self) -> tuple[int, int]:
        """The lowest and the highest level."""
        return self.lowest, self.highest


CONSTRUCTS: dict[str, Construct] = {}


def _declare(*rows: Construct) -> None:
    """Register constructs, in the order in which they are asked and shown. Raises InputError for a taken
    name, one with a "+" (which joins names), or a scale that has not five levels.
    """
    for row in rows:
        if row.name in CONSTRUCTS:
            raise InputError(f"construct {row.name!r} is declared twice")
        if not row.name or "+" in row.name:
            raise InputError(f"construct {row.name!r} needs a name without '+'")
        if row.highest - row.lowest != 4:
            raise InputError(f"construct {row.name!r} has the scale {row.scale}; give five levels, e.g. 1, 5")
        CONSTRUCTS[row.name] = row


def names() -> tuple[str, ...]:
    """The names of all constructs, in their order."""
    return tuple(CONSTRUCTS)


def get(name: str) -> Construct:
    """The row of a construct; InputError with a suggestion for an unknown name."""
    if name not in CONSTRUCTS:
        raise unknown("construct", name, CONSTRUCTS)
    return CONSTRUCTS[name]


_declare(
    Construct("proactiveness", "movies/judge_proactiveness", label="proactive-\nness"),
    Construct("coherence", "movies/judge_coherence"),
    Construct("personalization", "movies/judge_personalization", label="personal-\nization"),
)
