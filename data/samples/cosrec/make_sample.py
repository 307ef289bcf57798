# ruff: noqa: E501, D103 -- sentences and lists of words
"""Makes ``data/samples/cosrec``: a shop, its knowledge, conversations about it, and their judgments.

    python data/samples/cosrec/make_sample.py [--out data/samples/cosrec] [--seed 7]

Everything follows from the seed and from ``sample_words.py``; both are ours and in the public domain
(CC0). The generator knows what every product has and what every passage explains, so each topic's judgments
are complete within its pool. Difficulty is built in: near-duplicates that differ in one attribute, accessories
that share all words with the product they belong to, two wordings of each value of which the shopper uses
neither, words that a description only denies, passages on the same topic about other kinds, questions that
say "it", annotators who disagree. Passages and questions share stems and hardly a word: authors write of
"cleaning" kinds in the plural, some with compounds spelt the other way, where shoppers ask how one is "cleaned".
"""

import argparse
import gzip
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import sample_words as words

from crs_lib.core.rng import stream
from crs_lib.core.tables import write_aside

INTENTS = ("search", "recommendation", "product_details")
BASES, ACCESSORIES, PASSAGES = 50, 5, 13  # of a kind (variants come on top); of a kind; of a kind and topic
CROWD, CURATED = 60, 60
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


@dataclass(frozen=True)
class Kind:
    """A kind of product: how it is called, and the values of its attributes in three wordings each."""

    name: str
    calls: tuple[str, ...]
    category: str
    accessories: tuple[str, ...]
    prices: tuple[float, float]
    attributes: dict[str, tuple[tuple[str, str, str], ...]]


@dataclass
class Thing:
    """A product with what the generator knows of it; an accessory has neither values nor traits."""

    asin: str
    kind: Kind
    brand: str
    title: str
    price: float
    values: dict[str, int] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    lines: list[str] = field(default_factory=list)
    reviews: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Text:
    """A passage and the share of its sentences that explain each topic of its kind."""

    id: str
    kind: str
    shares: dict[str, float]
    title: str
    text: str


def pick(rng: np.random.Generator, items: Sequence[Any]) -> Any:
    return items[int(rng.integers(len(items)))]


def phrases(text: str, curated: bool) -> list[str]:
    """The phrasings before ``||``, and for curated conversations those after it, too."""
    known, _, new = text.partition("||")
    rest = [part for part in new.split("|") if part]
    return [*known.split("|"), *(rest if curated else [])]


def kinds() -> list[Kind]:
    """The kinds of products, read from their text."""
    found = []
    for block in words.KINDS.strip().split("\n\n"):
        head, *lines = block.split("\n")
        name, calls, category, extras, prices = (part.strip() for part in head.split("|"))
        low, high = (float(part) for part in prices.split(" - "))
        attributes = {}
        for line in lines:
            key, _, values = line.partition(": ")
            attributes[key] = tuple(tuple(v.strip().split(" / ")) for v in values.split(";"))
        found.append(
            Kind(name, tuple(calls.split(", ")), category, tuple(extras.split(", ")), (low, high), attributes)
        )
    return found


def article(noun: str) -> str:
    return "an" if noun[0] in "aeio" else "a"


def plural(noun: str) -> str:
    """Several of a kind: the last word of its name, or the one before "for" and the like, in the plural."""
    head, *rest = re.split(r"(?= (?:for|to|over|against)\b)", noun, maxsplit=1)
    for one, many in words.PLURALS.items():
        if head.endswith(one):
            return "".join([head.removesuffix(one) + many, *rest])
    return "".join([f"{head}s", *rest])


def spelt(noun: str) -> str:
    """The other spelling of a compound: two words as one, or one word as two where it can be split."""
    return words.SPLIT.get(noun) or noun.replace(" ", "")


def user_ids(rng: np.random.Generator, n: int) -> list[str]:
    return sorted("A" + "".join(pick(rng, LETTERS) for _ in range(27)) for _ in range(n))


class Shop:
    """All products of all kinds with their reviews."""

    def __init__(self, seed: int) -> None:
        self.rng = stream(seed, "cosrec sample", "shop")
        self.kinds = kinds()
        self.things: list[Thing] = []
        self.users = user_ids(self.rng, 700)
        self.loves = {
            u: [str(t) for t in self.rng.choice(list(words.TRAITS), 2, replace=False)] for u in self.users
        }
        for kind in self.kinds:
            for _ in range(BASES):
                self._family(kind)
            for _ in range(ACCESSORIES):
                self._accessory(kind)
        for thing in self.things:
            self._review(thing)

    def _asin(self) -> str:
        return f"BS{len(self.things) + 1:08d}"

    def _family(self, kind: Kind) -> None:
        """A product and, for every second, a near-duplicate with another value of one attribute."""
        rng = self.rng
        brand, line = pick(rng, words.BRANDS), pick(rng, words.LINES)
        values = {name: int(rng.integers(len(options))) for name, options in kind.attributes.items()}
        price = float(np.exp(rng.uniform(*np.log(kind.prices))))
        traits = {str(t) for t in rng.choice(list(words.TRAITS), int(rng.integers(1, 4)), replace=False)} - {
            "cheap"
        }
        number = int(rng.integers(2, 90)) * 10
        self._add(kind, brand, f"{brand} {line} {number}", values, traits, price)
        if rng.random() < 0.5:
            name = pick(rng, sorted(values))
            other = {**values, name: (values[name] + int(rng.integers(1, 3))) % 3}
            self._add(
                kind, brand, f"{brand} {line} {number + 5}", other, traits, price * rng.uniform(0.9, 1.15)
            )

    def _add(
        self, kind: Kind, brand: str, name: str, values: dict[str, int], traits: set[str], price: float
    ) -> None:
        rng = self.rng
        low, high = np.log(kind.prices)
        traits = traits | ({"cheap"} if np.log(price) < low + (high - low) / 3 else set())
        shown = kind.name if rng.random() < 0.7 else pick(rng, kind.calls)
        lines = [f"The {name} is {article(shown)} {shown} of the {brand} range."]
        for key, value in values.items():
            wording = kind.attributes[key][value][int(rng.random() < 0.5)]
            if rng.random() < 0.9:  # what a description leaves out nobody can find
                lines.append(wording[0].upper() + wording[1:])
        for trait in sorted(traits):
            if rng.random() < 0.85:
                lines.append(words.TRAITS[trait][int(rng.random() < 0.6)])
        for trait, denial in words.PAIRS:
            if trait not in traits and rng.random() < 0.22:
                lines.append(denial)
        first, *rest = lines
        rng.shuffle(rest)
        title = f"{name} {shown.title()}"
        self.things.append(
            Thing(
                self._asin(), kind, brand, title, round(price, 2), values, frozenset(traits), [first, *rest]
            )
        )

    def _accessory(self, kind: Kind) -> None:
        """Something for a kind that is not one of it, described in all its words."""
        rng = self.rng
        brand, extra = pick(rng, words.BRANDS), pick(rng, kind.accessories)
        options = [pick(rng, kind.attributes[key])[0] for key in kind.attributes]
        title = f"{brand} {extra.title()} for {kind.name.title()}s"
        lines = [
            f"A {extra} for every {kind.name}.",
            f"Suits {', '.join(options)}.",
            f"Also for a {kind.calls[0]}.",
        ]
        price = round(kind.prices[0] * rng.uniform(0.2, 0.6), 2)
        self.things.append(Thing(self._asin(), kind, brand, title, price, {}, frozenset(), lines))

    def _review(self, thing: Thing) -> None:
        rng = self.rng
        for user in rng.choice(self.users, int(rng.integers(2, 5)), replace=False):
            loved = [trait for trait in self.loves[str(user)] if trait in thing.traits]
            text = words.TRAITS[loved[0]][2] if loved else pick(rng, (
                "Does what it should.", "Nothing to complain about.", "It is all right for the price.",
                "Arrived quickly and works.", "I had expected more.", "My neighbour has the same."))  # fmt: skip
            rating = int(np.clip(round(rng.normal(4.4 if loved else 3.7, 0.8)), 1, 5))
            thing.reviews.append({
                "user": str(user), "timestamp": int(rng.integers(1_600_000_000, 1_720_000_000)) * 1000,
                "verified purchase": bool(rng.random() < 0.9), "title": f"A {'good' if rating > 3 else 'plain'} {thing.kind.name}",
                "text": text, "rating": rating, "helpful": int(rng.integers(0, 12)),
            })  # fmt: skip
        thing.reviews.sort(key=lambda review: review["timestamp"])

    def records(self) -> Iterable[dict[str, Any]]:
        """The products as the catalogue command writes them."""
        for thing in self.things:
            counts = {str(r): sum(review["rating"] == r for review in thing.reviews) for r in range(1, 6)}
            ratings = [review["rating"] for review in thing.reviews]
            yield {
                "parent_asin": thing.asin, "title": thing.title, "description": thing.lines,
                "details": {"Brand": thing.brand, "Kind": thing.kind.name},
                "categories": [thing.kind.category, thing.kind.name.title()], "store": thing.brand,
                "price": thing.price, "num_ratings": 20 * len(ratings), "avg_ratings": round(float(np.mean(ratings)), 1),
                "valid_reviews": thing.reviews, "valid_ratings": counts, "num_valid_ratings": len(ratings),
                "avg_valid_ratings": round(float(np.mean(ratings)), 3),
            }  # fmt: skip


class Library:
    """Passages: for each kind and topic some that explain it, some that touch it, some beside the point."""

    def __init__(self, shop: Shop, seed: int) -> None:
        self.rng = stream(seed, "cosrec sample", "library")
        self.texts: list[Text] = []
        for kind in shop.kinds:
            for topic in words.TOPICS:
                for number in range(PASSAGES):
                    self._write(kind, topic, 3 if number < 3 else 1 if number < 8 else 0)

    def _write(self, kind: Kind, topic: str, core: int) -> None:
        rng, topics = self.rng, words.TOPICS
        others = [name for name in topics if name != topic]
        about = [topic] * core + [pick(rng, others) for _ in range(4 - core)]
        name = pick(rng, (kind.name, *kind.calls)) if rng.random() < 0.25 else kind.name
        said = []
        for one in about:
            unused = [s for s in topics[one][1].split("|") if s not in said]
            said.append(pick(rng, unused))
        said.append(pick(rng, words.FILLER))
        rng.shuffle(said)
        if name == kind.name and rng.random() < words.SPELT:
            name = spelt(name)
        text = " ".join(s.format(kind=name, kinds=plural(name)) for s in said)
        head = (
            topics[topic if core != 1 else pick(rng, others)][0]
            if rng.random() < 0.85
            else "Facts on {kinds}"
        )
        shares = {one: about.count(one) / 4 for one in about}
        title = head.format(kind=kind.name, kinds=plural(kind.name))
        number = len(self.texts) + 1
        self.texts.append(
            Text(
                f"sample_v1_doc_{number // 40:02d}_{number}#{number % 7}_{number}",
                kind.name,
                shares,
                title[0].upper() + title[1:],
                text,
            )
        )


@dataclass
class Asked:
    """An intent of a user turn as the generator knows it."""

    turn: int
    type: str
    variants: list[str]
    wishes: dict[str, int] = field(default_factory=dict)
    topic: str = ""
    product: str = ""


class Talk:
    """A conversation about one kind: its lines, its intents, its users."""

    def __init__(
        self, shop: Shop, library: Library, name: str, rng: np.random.Generator, curated: bool
    ) -> None:
        self.shop, self.library, self.name, self.rng, self.curated = shop, library, name, rng, curated
        self.kind: Kind = pick(rng, shop.kinds)
        self.lines: list[str] = []
        self.asked: list[Asked] = []
        self.turn = -1
        self.wishes: dict[str, int] = {}
        self.said: dict[str, str] = {}
        self.care = float(rng.random())  # how well the conversation is made; raters see it
        self.offered: Thing | None = None
        self.users = sorted(
            str(u)
            for u in rng.choice(
                shop.users, int(rng.integers(2, 4) if curated else rng.integers(1, 4)), replace=False
            )
        )
        self._tell()

    def _user(self, text: str) -> None:
        self.turn += 1
        self.lines.append(f"U: {text[0].upper()}{text[1:]}")

    def _system(self, text: str) -> None:
        if self.rng.random() > 0.35 + self.care:
            text = pick(self.rng, words.DULL.split("|"))
        self.lines.append(f"S: {text[0].upper()}{text[1:]}")

    def _tell(self) -> None:
        rng = self.rng
        self._wish(words.OPENINGS)
        self._system(pick(rng, words.ASKS.split("|")))
        if rng.random() < 0.6:
            self._user(
                pick(rng, phrases(words.CHAT, self.curated)).format(
                    budget=int(np.mean(self.kind.prices) // 10 * 10)
                )
            )
            self._system("Thank you, that helps. What else matters to you?")
        steps = (
            ["search", "search", "wish", "details"]
            + (["more"] if rng.random() < 0.5 else [])
            + (["search"] if rng.random() < 0.4 else [])
        )
        rng.shuffle(steps)
        for step in steps:
            if step == "search":
                self._search()
            elif step == "details":
                self._details()
            else:
                self._wish(words.REFINES if step == "wish" else words.MORE)
                self._offer()
        self._user(pick(rng, phrases(words.CLOSINGS, self.curated)))
        if rng.random() < 0.7:
            self._system("You are welcome. Enjoy it!")

    def _wish(self, openings: str) -> None:
        """A request for products with one wish more; now and then with a question beside it."""
        rng, kind = self.rng, self.kind
        free = [name for name in kind.attributes if name not in self.wishes]
        if not free:
            name = pick(rng, sorted(self.wishes))
            self.wishes[name] = (self.wishes[name] + 1) % 3
        else:
            name = pick(rng, free)
            self.wishes[name] = int(rng.integers(3))
        wording = kind.attributes[name][self.wishes[name]]
        wish = f"with {wording[int(rng.integers(2))]}" if rng.random() < 0.5 else wording[2]
        call = kind.name if rng.random() < 0.6 else pick(rng, kind.calls)
        self._user(pick(rng, phrases(openings, self.curated)).format(
            call=f"{article(call)} {call}", wish=wish, Wish=wish[0].upper() + wish[1:]))  # fmt: skip
        self.said[name] = wish
        all_of = list(self.said.values())
        self._ask("recommendation", [
            f"{kind.name} {' '.join(all_of)}", f"{kind.name} {wish}", f"{article(call)} {call} {' and '.join(all_of)}",
        ], wishes=dict(self.wishes))  # fmt: skip

    def _search(self) -> None:
        rng, kind = self.rng, self.kind
        topic = pick(rng, [t for t in words.TOPICS if all(a.topic != t for a in self.asked)])
        _, sentences, named, hinted = words.TOPICS[topic]
        call = pick(rng, (kind.name, *kind.calls))
        question = pick(rng, (named if rng.random() < 0.65 else hinted).split("|"))
        spoken = question.format(a=article(call), kind=call, it="it")
        lead = pick(rng, phrases(words.LEADS, self.curated))
        self._user(
            lead.format(
                question=spoken, Question=spoken[0].lower() + spoken[1:], topic=topic, kinds=plural(call)
            )
        )
        plain = named.split("|")[0].format(a=article(kind.name), kind=kind.name, it=f"the {kind.name}")
        full = question.format(a=article(kind.name), kind=kind.name, it=f"the {kind.name}")
        self._ask(
            "search", [f"{topic} of a {kind.name}", plain.rstrip("?").lower(), full.lower()], topic=topic
        )
        fact = pick(rng, sentences.split("|")).format(kind=kind.name, kinds=plural(kind.name))
        self._system(pick(rng, words.ANSWERS.split("|")).format(fact=fact))

    def _fits(self, thing: Thing) -> int:
        return sum(thing.values.get(key) == value for key, value in self.wishes.items())

    def _offer(self) -> None:
        rng = self.rng
        mine = [t for t in self.shop.things if t.kind is self.kind and t.values]
        best = sorted(mine, key=lambda t: (-self._fits(t), t.asin))[:6]
        self.offered = pick(rng, best)
        self._system(
            pick(rng, words.OFFERS.split("|")).format(title=self.offered.title, price=self.offered.price)
        )

    def _details(self) -> None:
        rng = self.rng
        if self.offered is None:
            self._offer_before()
        thing = self.offered
        assert thing is not None
        self._user(pick(rng, phrases(words.DETAILS, self.curated)).format(title=thing.title))
        self._ask(
            "product_details",
            [f"details of the {thing.title}", f"{thing.title} features and price"],
            product=thing.asin,
        )
        key = pick(rng, sorted(thing.values))
        self._system(
            pick(rng, words.FACTS.split("|")).format(value=self.kind.attributes[key][thing.values[key]][0])
        )

    def _offer_before(self) -> None:
        """The system's last line becomes an offer, so that there is something to ask about."""
        self.lines.pop()
        self._offer()

    def _ask(self, kind: str, variants: list[str], **facts: Any) -> None:
        unique = list(dict.fromkeys(" ".join(v.split()) for v in variants))
        self.rng.shuffle(unique)
        self.asked.append(Asked(self.turn, kind, unique, **facts))

    def annotations(self) -> list[dict[str, Any]]:
        """What four or five annotators saw; each has a rate of error of their own."""
        rng = self.rng
        rates = rng.uniform(0.03, 0.4, int(rng.integers(4, 6)))
        rows = []
        for turn in range(self.turn + 1):
            here = [a for a in self.asked if a.turn == turn]
            cells = [self._view(here, rate) for rate in rates]
            if any(cells):
                rows.append({"utterance": turn, "intent_annotations": cells})
        return rows

    def _view(self, here: list[Asked], rate: float) -> list[dict[str, str]]:
        rng = self.rng
        if not here:
            return (
                []
                if rng.random() > rate / 2
                else [{"type": "recommendation", "query": f"a {self.kind.name}"}]
            )
        out = []
        for asked in here:
            wrong = rng.random() < rate
            kind = pick(rng, [k for k in INTENTS if k != asked.type]) if wrong else asked.type
            if not (wrong and rng.random() < 0.3):
                out.append({"type": kind, "query": pick(rng, asked.variants)})
        return out

    def intents(self) -> list[dict[str, Any]]:
        """The curated list: every intent with its phrasings."""
        rows: dict[int, list[dict[str, Any]]] = {}
        for asked in self.asked:
            here = rows.setdefault(asked.turn, [])
            row = {
                "id": f"{self.name}_{asked.turn}_{len(here)}",
                "type": asked.type,
                "query_variants": asked.variants,
            }
            here.append(row | ({"product": asked.product} if asked.product else {}))
        return [{"utterance": turn, "intents": found} for turn, found in rows.items()]

    def ratings(self) -> list[dict[str, int]]:
        """Four or five raters who follow the care of the conversation, each with a level of their own."""
        rng, rows = self.rng, []
        for _ in range(int(rng.integers(4, 6))):
            level = 2.6 + 2.2 * self.care + rng.normal(0, 0.4)
            aspects = ("fluency", "informativeness", "logicality", "coherence")
            rows.append({name: int(np.clip(round(level + rng.normal(0, 0.6)), 1, 5)) for name in aspects})
        return rows

    def judgments(self) -> Iterable[tuple[str, str, int]]:
        """Topic, document, grade: products by wishes met and by the user's traits, passages by their shares."""
        position: dict[int, int] = {}
        for asked in self.asked:
            place = position.get(asked.turn, 0)
            position[asked.turn] = place + 1
            topic = f"{self.name}_{asked.turn}_{place}"
            if asked.type == "search":
                yield from ((topic, text.id, grade) for text, grade in self._texts(asked))
            elif asked.type == "recommendation":
                for index, user in enumerate(["", *self.users]):
                    yield from (
                        (f"{topic}#{index}", thing.asin, g) for thing, g in self._products(asked, user)
                    )

    def _texts(self, asked: Asked) -> Iterable[tuple[Text, int]]:
        mine = [t for t in self.library.texts if t.kind == self.kind.name]
        other = [t for t in self.library.texts if t.kind != self.kind.name and asked.topic in t.shares]
        beside = [other[i] for i in sorted(self.rng.choice(len(other), 40, replace=False).tolist())]
        for text in (*mine, *beside):
            share = text.shares.get(asked.topic, 0.0) if text.kind == self.kind.name else 0.0
            yield text, 2 if share >= 0.5 else int(share > 0)

    def _products(self, asked: Asked, user: str) -> Iterable[tuple[Thing, int]]:
        mine = [t for t in self.shop.things if t.kind is self.kind]
        far = [
            t for t in self.shop.things if t.kind is not self.kind and t.kind.category == self.kind.category
        ][:15]
        for thing in (*mine, *far):
            if thing.kind is not self.kind or not thing.values:
                yield thing, 0
                continue
            met = sum(thing.values[key] == value for key, value in asked.wishes.items()) / len(asked.wishes)
            loved = [trait in thing.traits for trait in self.shop.loves[user]] if user else []
            liked = any(loved) if user else True
            yield thing, (2 if liked else 1) if met == 1 else int(met > 0.6 and all(loved))


def _lines(path: Path, rows: Iterable[Any]) -> None:
    with write_aside(path) as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=True) + "\n")


def _packed(path: Path, rows: Iterable[Any]) -> None:
    """JSON lines in a gzip file without a time stamp: the same rows give the same bytes."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    with write_aside(path, "wb") as file:
        file.write(gzip.compress(text.encode(), 9, mtime=0))


def write(out: Path, seed: int) -> None:
    """Write the whole sample."""
    shop = Shop(seed)
    library = Library(shop, seed)
    _packed(out / "products.jsonl.gz", shop.records())
    rows = ({"docid": t.id, "title": t.title, "headings": t.kind, "segment": t.text} for t in library.texts)
    _packed(out / "passages.jsonl.gz", rows)
    for part, count in (("crowd", CROWD), ("curated", CURATED)):
        curated, folder = part == "curated", out / part
        talks = [
            Talk(shop, library, f"Sample-{part.title()}_{n}", stream(seed, "cosrec sample", part, n), curated)
            for n in range(1, count + 1)
        ]
        _lines(folder / "conversations.jsonl", ({t.name: "\n".join(t.lines)} for t in talks))
        if curated:
            _lines(folder / "intents.jsonl", ({t.name: t.intents()} for t in talks))
            with write_aside(folder / "qrels.qrels") as file:
                for talk in talks:
                    for topic, document, grade in talk.judgments():
                        file.write(f"{topic}\t0\t{document}\t{grade}\n")
        else:
            _lines(folder / "intent_annotations.jsonl", ({t.name: t.annotations()} for t in talks))
        _lines(folder / "quality.jsonl", ({t.name: t.ratings()} for t in talks))
        loves = shop.loves
        _lines(folder / "profiles.jsonl", ({t.name: {u: _summary(loves[u]) for u in t.users}} for t in talks))
        _lines(folder / "keywords.jsonl", ({t.name: {u: loves[u] for u in t.users}} for t in talks))


def _summary(traits: list[str]) -> str:
    return f"This buyer looks for things that are {' and '.join(traits)} and reads reviews before deciding."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=Path("data/samples/cosrec"))
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    write(given.out, given.seed)
    sizes = {p.relative_to(given.out).as_posix(): p.stat().st_size for p in sorted(given.out.rglob("*.*"))}
    print(json.dumps(sizes, indent=1))


if __name__ == "__main__":
    main()
