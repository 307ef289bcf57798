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

    def __post_init__(self) -> None:
        """Raise InputError for a name with a "+", which joins names, or a scale that has not five levels."""
        if not self.name or "+" in self.name:
            raise InputError(f"construct {self.name!r} needs a name without '+'")
        if self.highest - self.lowest != 4:
            raise InputError(f"construct {self.name!r} has the scale {self.scale}; give five levels, as 1, 5")

    @property
    def scale(self) -> tuple[int, int]:
        """The lowest and the highest level."""
        return self.lowest, self.highest


# In the order in which they are asked and shown.
_ROWS = (
    Construct("proactiveness", "movies/judge_proactiveness", label="proactive-\nness"),
    Construct("coherence", "movies/judge_coherence"),
    Construct("personalization", "movies/judge_personalization", label="personal-\nization"),
)
CONSTRUCTS = {row.name: row for row in _ROWS}


def names() -> tuple[str, ...]:
    """The names of all constructs, in their order."""
    return tuple(CONSTRUCTS)


def get(name: str) -> Construct:
    """The row of a construct; InputError with a suggestion for an unknown name."""
    if name not in CONSTRUCTS:
        raise unknown("construct", name, CONSTRUCTS)
    return CONSTRUCTS[name]
