"""Generation: drafts judged by rule, prompts that fit, a scripted model, resume, retries, provenance."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from crs_lib.__main__ import main
from crs_lib.core import paths, prompts
from crs_lib.core.errors import RunError
from crs_lib.core.rng import stream
from crs_lib.cosrec import corpus, drafts
from crs_lib.cosrec.generate import Writer, generate, read_generated
from crs_lib.cosrec.index import Stock
from crs_lib.cosrec.items import CatalogueProduct, Passage, Review
from crs_lib.cosrec.settings import DESIGN, PROMPTS, GenerateSettings
from crs_lib.llm.base import tokens_at_most
from tests.helpers import refused

GOOD = (
    "U: I need a tent for two.\nS: What matters to you?\nU: Low weight.\nS: The Larkhill Feather 2-Person Tent is light."
    "\nU: That is the one, thanks!\nS: You are welcome."
)
TITLE = "Larkhill Feather 2-Person Trekking Tent"


def test_a_good_draft_is_kept_as_it_is():
    draft = drafts.judge(GOOD, TITLE, 3, 4)
    assert (draft.repairs, draft.problems) == ((), ())
    assert drafts.judge(GOOD, TITLE, 4, 8).problems == ("3 user turns, expected 4 to 8",)
    assert draft.text() == GOOD


@pytest.mark.parametrize(("text", "repair"), [
    ("Here is the conversation:\n" + GOOD, "dropped words before the first speaker"),
    (GOOD.replace("\nS: What", " S: What"), ""), (GOOD.replace("U: Low weight.", "**U:** Low weight."), ""),
    (GOOD.replace("S: What matters to you?", "S: What matters\nto you?"), "joined a line without speaker"),
    (GOOD.replace("S: What matters to you?", "S: What matters\nS: to you?"), "joined lines of one speaker"),
])  # fmt: skip
def test_repairs(text, repair):
    draft = drafts.judge(text, TITLE, 3, 4)
    assert draft.text() == GOOD and draft.repairs == ((repair,) if repair else ())


@pytest.mark.parametrize(("text", "problem"), [
    ("I cannot do that.", "no line starts"), ("S: Hello\n" + GOOD, "the system speaks first"),
    (GOOD.replace("Larkhill Feather", "Otterby"), "the target is never named"),
    (GOOD.replace("a tent for two", f"the {TITLE}"), "the user names the target first"),
    (GOOD.replace("What matters to you?", f"Take the {TITLE}."), "the target is named in the first half"),
    (GOOD.replace("Low weight", "[your wish]"), "a placeholder"), (GOOD.replace("U: Low weight.", "U: "), "an empty line"),
    (GOOD.replace("Low weight.", "I need a tent for two."), "a repeated line"),
    (GOOD.replace("Low weight.", "Quiero una que no sea muy cara y que sea para todo"), "not English: es"),
])  # fmt: skip
def test_problems(text, problem):
    assert any(found.startswith(problem) for found in drafts.judge(text, TITLE, 3, 4).problems)


def product(asin, words):
    review = Review("A", 1, "", "Good", "useful " * words, 1)
    return CatalogueProduct(asin, f"CatalogueProduct {asin}", ("long " * words,), 9.0, ("Home",), (review,))


def fitted(words, contexts):
    products = tuple(product(f"B{i}", words) for i in range(4))
    material = drafts.Material(
        "B2", products, tuple(Passage(f"p{i}", "", "fact " * words) for i in range(4)), 1, 4
    )
    versions = drafts.shrinking(material, lambda m: m.catalogue() + m.documents())
    return drafts.fit(versions, "B2", lambda text: len(text.split()), 10, contexts)


def test_material_goes_in_the_declared_order_and_the_target_stays():
    found = fitted(60, (300,))
    assert found.left_out[0] == "a review of each product"
    assert found.left_out[1:3] == ("passage p3", "passage p2")
    assert found.prompt.count("fact fact") == 60  # of two passages
    assert "long long" in found.prompt and "CatalogueProduct B2" in found.prompt
    assert len(found.prompt.split()) + 10 <= 300
    smallest = fitted(60, (200,))  # the target's 65 words, two passages of 61, and 10 for the answer
    assert smallest.left_out[-3:] == ("product B3", "product B1", "product B0")
    refused("use larger context sizes", fitted, 200, (210,))
    whole = fitted(10, (300, 600, 900))  # the smallest context that holds everything
    assert (whole.context, whole.left_out) == (300, ())
    assert fitted(30, (300, 600, 900)).context == 600
    for contexts in ((), (1, 2, 3, 4), (200, 100)):
        refused("one to three, growing", fitted, 1, contexts)


class Scripted:
    """Models that answer from the prompt and keep what they were asked."""

    def __init__(self, answer: Callable[[Any], str]) -> None:
        self.answer, self.asked = answer, []

    def complete(self, spec: str, request: Any) -> Any:
        self.asked.append(request)
        return type("Reply", (), {"text": self.answer(request), "digest": "scripted"})()


def obedient(request):
    if request.role == "cosrec product_query":
        return '"Light Tent?"'
    if request.role == "cosrec user_summary":
        return " This buyer  likes light things. "
    if request.role == "cosrec user_keywords":
        return "{Light; cheap ;light}"
    title = request.messages[0].content.partition('names "')[2].partition('"')[0]
    return (
        f"U: I need something new {request.seed}\nS: What for?\nU: For home\nS: I see\nU: What do you suggest?\nS: Wait\nU: Yes?\n"
        f"S: The {title}\nU: Is it good?\nS: It is\nU: How dear?\nS: Not very\nU: Thanks, I take it"
    )


def writer(answer, **settings):
    config = GenerateSettings(writer="ollama:tiny", conversations=3, **settings)
    model = Scripted(answer)
    return Writer(config, str(corpus.locate("sample")), pool=model), model  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_scripted_model_leaves_all_its_evidence():
    made, model = writer(obedient)
    record = made.record(1)
    assert record["query"] == "light tent" and record["target"] in record["products"]
    assert len(record["products"]) == 10 and len(record["passages"]) == 10
    facts = record["prompts"]["conversation"]
    assert facts["prompt"] == model.asked[1].messages[0].content
    assert record["target_title"] in facts["prompt"]
    assert all(made.stock.products[asin].title in facts["prompt"] for asin in record["products"])
    assert facts["seed"] == model.asked[1].seed is not None
    assert model.asked[1].options["num_ctx"] in made.config.contexts
    assert [user["keywords"] for user in record["users"]] == [["light", "cheap"]] * len(record["users"])
    assert record["users"][0]["summary"] == "This buyer likes light things."
    assert {request.role.split()[1] for request in model.asked} == set(PROMPTS)
    assert len({(request.role, request.seed) for request in model.asked}) == len(model.asked)
    assert json.dumps(made.record(1)) == json.dumps(record)


@pytest.mark.slow
def test_every_attempt_has_a_seed_of_its_own_and_the_last_failure_is_told():
    made, model = writer(lambda request: "tent" if "query" in request.role else "U: hello")
    refused(r"no usable conversation .* in 3 attempts: 1 user turns", made.record, 0, error=RunError)
    assert len({request.seed for request in model.asked}) == 4  # a query and three drafts
    long, _ = writer(lambda request: "one two three four five six seven eight")
    refused("8 words, expected 1 to 7", long.record, 0, error=RunError)


def test_a_second_attempt_may_succeed():
    seen: list[str] = []

    def late(request: Any) -> str:
        seen.append(request.role)
        return obedient(request) if len(seen) != 2 else "Sorry."

    assert writer(late)[0].record(0)["attempt"] == 2


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    return tmp_path


@pytest.mark.slow
def test_the_template_writer_needs_no_model(results):
    folder = generate(GenerateSettings(run="a", conversations=12))
    records = read_generated("a")
    assert list(corpus.load(folder, "raw").conversations) == [record["id"] for record in records]
    assert len({record["target"] for record in records}) == 12
    for record in records:
        assert drafts.judge(record["conversation"], record["target_title"], 6, 8).problems == ()
    before = (folder / "generated.jsonl").read_bytes()
    generate(GenerateSettings(run="a", conversations=12))
    assert (folder / "generated.jsonl").read_bytes() == before
    generate(GenerateSettings(run="b", conversations=12, workers=2))
    assert (paths.run_folder("cosrec", "b") / "generated.jsonl").read_bytes() == before


@pytest.mark.slow
def test_failed_conversations_are_tried_again(results, monkeypatch):
    config = GenerateSettings(run="c", conversations=4)
    real = Writer.record

    def unlucky(self: Writer, number: int) -> dict[str, Any]:
        if number == 2:
            raise RunError("the server is away")
        return real(self, number)

    monkeypatch.setattr(Writer, "record", unlucky)
    refused(r"1 of 4 .*the server is away", generate, config, error=RunError)
    done: list[int] = []
    monkeypatch.setattr(Writer, "record", lambda self, number: done.append(number) or real(self, number))
    generate(config)
    assert done == [2] and len(read_generated("c")) == 4


def test_collections_of_the_sample():
    folder = corpus.locate("sample")
    stock = Stock(folder)
    assert (len(stock.products), len(stock.passages)) == (1591, 3120)
    asin, wanted = next(iter(stock.products.items()))
    assert stock.search("products").search(wanted.search_text(), 1)[0].id == asin
    assert wanted.search_text().startswith(wanted.title)
    assert wanted.block(2).count("a buyer:") == min(2, len(wanted.reviews))
    refused("no file", Stock, folder / "crowd", error=RunError)
    refused("need as many target products", Writer, GenerateSettings(conversations=9999), str(folder))


def test_profiles_by_rule_say_what_the_reviews_speak_of():
    texts = [
        "Worth it. It is light and packs small.", "Light! Half the weight of my old one.", "It broke. Not sturdy."
    ]  # fmt: skip
    found = drafts.profile_by_rule("A", texts)
    assert found.keywords == ["light", "durable", "good value", "compact"]
    assert found.summary == "This buyer cares about: light, durable, good value, compact."
    assert drafts.profile_by_rule("A", ["Xyzzy."]).keywords == ["quality"]
    refused("no reviews", drafts.profile_by_rule, "A", [])


@pytest.mark.parametrize("reply", ["light; cheap", "{}", "{a} {b}", "}a{"])
def test_keywords_that_cannot_be_read(reply):
    refused("one pair of braces", drafts.read_keywords, reply)


def test_template_asks_about_each_title_once():
    target = product("B1", 3)
    titles = enumerate(("Oil", "Wicks", "Wicks", "Soot"))
    found = [Passage(f"p{n}", title, f"Fact {n} is known.") for n, title in titles]
    text = drafts.conversation_by_rule(target, [], found, "a lamp", stream(1, "test"))
    assert drafts.judge(text, target.title, 1, 8).problems == ()
    places = [text.index(word) for word in ("oil", "wicks", "soot")]
    assert places == sorted(places) and "Fact 1" in text and "Fact 2" not in text
    bare = drafts.conversation_by_rule(target, [], [], "a lamp", stream(1, "test"))  # without passages
    assert drafts.judge(bare, target.title, 1, 8).problems == ()


def test_the_preset_prints_every_value_of_the_design_and_the_prompt_names_the_longest_query(capsys):
    assert main(["cosrec", "generate", "--preset", "design", "--estimate", "--reviews", "2"]) == 0
    told = dict(line.split(": ", 1) for line in capsys.readouterr().out.partition("\n\n")[0].splitlines())
    assert set(told) == set(DESIGN) and told["reviews"] == "2"
    assert (told["seed"], told["query_words"], told["writer"]) == ("20250218", "7", "ollama:llama3.1:8b")
    assert "At most 7 words" in prompts.render("cosrec/product_query", product="x", max_words=7)


def test_tokens_are_counted_by_a_tokenizer_file(tmp_path):
    made = pytest.importorskip("tokenizers")
    counter = made.Tokenizer(made.models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    counter.pre_tokenizer = made.pre_tokenizers.Whitespace()
    counter.save(str(tmp_path / "tokenizer.json"))
    exact, model = writer(obedient, tokenizer=str(tmp_path / "tokenizer.json"))
    bound, plain = writer(obedient)
    assert exact.record(1)["query"] == bound.record(1)["query"]
    assert [one.tokens for one in plain.asked] == [0] * len(plain.asked)
    asked = model.asked[1]
    count = len(counter.encode(asked.messages[0].content).ids) + 16
    assert asked.tokens == count < tokens_at_most(asked.messages)
    refused("no tokenizer file", writer, obedient, tokenizer=str(tmp_path / "none.json"))
