"""A reader of relaxing, retracting and starting over whose cue words were written before any template was read.

``BLIND`` is that list, unchanged: what a person says who relaxes a wish, takes one back, or starts over. Its
reading is wrong where a user adds what stays or comes next ("the rest stays", "I'd rather have ..."), so
``STRUCK`` names the cues that were struck out once its readings had been looked at. benchmarks/told_apart.py prints both rates.
"""

import re

BLIND = {
    "relax": (
        r"need not|needn't|need n't|"
        r"(doesn't|does not|don't|do not|didn't|won't) (really |actually |strictly )?(have|need) to|"
        r"no need|no longer need|"
        r"not (really |that |so |strictly )?(necessary|needed|required|essential|important|crucial|vital)|"
        r"isn't (necessary|needed|required|essential|important)|not a must|"
        r"no longer (a must|important|essential|necessary|required)|"
        r"(doesn't|does not|won't) (really )?matter|no longer matters|makes no difference|don't mind|"
        r"do not mind|not fussed|not fussy|not picky|not bothered|not set on|not so strict|less strict|"
        r"not insist|don't insist|no longer insist|open to|keep .* open|leave .* open|optional|flexible|"
        r"either way|no preference|don't care|do not care|all the same to me|"
        r"any .* (will do|is fine|would do|is okay|goes|works)|anything goes|whatever|whichever|whoever|"
        r"(are|is|would be) (fine|okay|ok|welcome|good) too|just as (good|well|welcome)|as well be|"
        r"could also be|can also be|may also be|might as well|loosen|relax|wider|broaden|nice to have|"
        r"if not"
    ),
    "contradict": (
        r"after all|i was wrong|mistake|misspoke|(take|taking) (that|it|this) back|take back|"
        r"i (didn't|did not) mean|i never meant|shouldn't have said|should not have said|said that wrong|"
        r"anything but|no more|without|"
        r"(don't|do not|no longer) (actually |really )?(want|like|fancy|feel like)|avoid|rule[sd]? out|"
        r"leave out|keep out|exclude|excluding|hate|can't (stand|bear|take)|cannot (stand|bear|take)|"
        r"never again|please no|please not|stay away|keep away|steer clear|sick of|tired of|fed up|"
        r"enough of|had enough|not in the mood|spare me|at all|under no circumstances|"
        r"(definitely|certainly|absolutely|really) (not|no)|except|other than|rather not|dislike|"
        r"off the table|out of the question|\bban\b|wrong of me|i take|must not|mustn't|should not be|"
        r"shouldn't be|must n't|not be"
    ),
    "switch": (
        r"instead|forget|never ?mind|\bdrop\b|\bditch\b|something (else|different|new)|"
        r"(completely|entirely|quite|totally) different|start(ing)? (over|again|afresh|fresh|anew)|"
        r"from scratch|new (idea|plan|direction|topic)|"
        r"(other|another|different) (idea|plan|direction|topic|angle)|"
        r"change of (plan|subject|heart|direction|topic)|move on|moving on|leave (that|it|those|this)|"
        r"set (that|those|it|all that|everything) aside|put (that|those|it|all that) aside|"
        r"(no longer|don't|doesn't|do not|does not) (count|apply|hold)|only thing that (matters|counts)|"
        r"all that (matters|counts)|switch|clean slate|scrap|"
        r"(everything|anything|all|what|whatever) (else )?i('ve| have)? (said|asked|told|mentioned|wanted)|"
        r"earlier|previous|before|so far|old (wishes|ones|requests)|the rest|let's (go|turn|try)|off to|"
        r"i'd rather|rather have|now i('d| would)|just want|only want"
    ),
}  # fmt: skip
STRUCK = (
    "the rest", "i'd rather", "rather have", "leave (that|it|those|this)", "never ?mind", "now i('d| would)",
)  # fmt: skip


def compiled(struck=()):
    """The cue words as patterns, without those that are struck out."""
    patterns = {}
    for kind, cues in BLIND.items():
        for cue in struck:
            cues = f"|{cues}|".replace(f"|{cue}|", "|").strip("|")
        patterns[kind] = re.compile(rf"\b(?:{cues})", re.I)
    return patterns


def read(text, patterns):
    """The kind with most cues, "none" without any; switch before contradict before relax where they tie."""
    plain = text.replace("’", "'")
    counts = {kind: len(pattern.findall(plain)) for kind, pattern in patterns.items()}
    if not any(counts.values()):
        return "none"
    return max(("switch", "contradict", "relax"), key=counts.get)
