"""Every text that a wording file can say."""

import itertools

from crs_lib.prompts import wording


def expansions(template, slot):
    """Every text that a template can give, with the same filling for every slot."""
    parts = [
        [slot] if isinstance(part, wording.Slot)
        else [text for option in part for text in expansions(option, slot)] if isinstance(part, tuple)
        else [part]
        for part in template
    ]  # fmt: skip
    return ["".join(choice) for choice in itertools.product(*parts)]


def every_text(name, slot="Qzvx"):
    return {
        section: [text for line in lines for text in expansions(line, slot)]
        for section, lines in wording.sections(name).items()
    }
