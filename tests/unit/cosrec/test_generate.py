"""Generation: drafts judged by rule, prompts that fit, a scripted model, resume, retries, provenance."""

import json
from types import SimpleNamespace

import pytest

from crs_lib import runs
from crs_lib.__main__ import main
from crs_lib.core import paths, prompts
from crs_lib.core.errors import RunError
from crs_lib.core.rng import stream
from crs_lib.cosrec import corpus, drafts
from crs_lib.cosrec.generate import Writer, generate, read_generated
from crs_lib.cosrec.index import Stock
from crs_lib.cosrec.records import CatalogueProduct, Passage, Review
from crs_lib.cosrec.settings import DESIGN, PROMPTS, GenerateSettings
from crs_lib.llm.base import tokens_at_most
from tests.helpers import refused, table
from tests.helpers.cosrec_data import part_of_sample

GOOD = (
    "U: I need a tent for two.\nS: What matters to you?\nU: Low weight.\nS: The Larkhill Feather 2-Person Tent is light."
    "\nU: That is the one, thanks!\nS: You are welcome."
)
TITLE = "Larkhill Feather 2-Person Trekking Tent"
SAMPLE = corpus.locate("sample")


def test_a_good_draft_is_kept_as_it_is():
    draft = drafts.judge(GOOD, TITLE, 3, 4)
    assert draft.repairs == ()
    assert draft.problems == ()
    assert draft.text() == GOOD
    assert drafts.judge(GOOD, TITLE, 4, 8).problems == ("3 user turns, expected 4 to 8",)


def test_repairs():
    def repaired(text, *repairs):
        draft = drafts.judge(text, TITLE, 3, 4)
        assert draft.text() == GOOD
        assert draft.repairs == repairs

    repaired("Here is the conversation:\n" + GOOD, "dropped words before the first speaker")
    repaired(GOOD.replace("\nS: What", " S: What"))
    repaired(GOOD.replace("U: Low weight.", "**U:** Low weight."))
    repaired(GOOD.replace("What matters to", "What matters\nto"), "joined a line without speaker")
    repaired(GOOD.replace("What matters to", "What matters\nS: to"), "joined lines of one speaker")


def test_problems():
    def broken(problem, text):
        problems = drafts.judge(text, TITLE, 3, 4).problems
        assert any(text.startswith(problem) for text in problems)

    broken("no line starts", "I cannot do that.")
    broken("the system speaks first", "S: Hello\n" + GOOD)
    broken("the target is never named", GOOD.replace("Larkhill Feather", "Otterby"))
    broken("the user names the target first", GOOD.replace("a tent for two", f"the {TITLE}"))
    broken(
        "the target is named in the first half", GOOD.replace("What matters to you?", f"Take the {TITLE}.")
    )
    broken("a placeholder", GOOD.replace("Low weight", "[your wish]"))
    broken("an empty line", GOOD.replace("U: Low weight.", "U: "))
    broken("a repeated line", GOOD.replace("Low weight.", "I need a tent for two."))
    spanish = "Quiero una que no sea muy cara y que sea para todo"
    broken("not English: es", GOOD.replace("Low weight.", spanish))


def product(asin, words):
    review = Review("A", 1, "", "Good", "useful " * words, 1)
    return CatalogueProduct(asin, f"CatalogueProduct {asin}", ("long " * words,), 9.0, ("Home",), (review,))


def fitted(words, contexts):
    """Four products and four passages of so many words each, fitted; a token is a word."""
    products = tuple(product(f"B{number}", words) for number in range(4))
    passages = tuple(Passage(f"p{number}", "", "fact " * words) for number in range(4))
    material = drafts.Material("B2", products, passages, 1, 4)
    versions = drafts.shrinking(material, lambda left: left.catalogue() + left.documents())
    return drafts.fit(versions, "B2", lambda text: len(text.split()), 10, contexts)


def test_material_goes_in_the_declared_order():
    version, _ = fitted(60, (300,))
    assert version.left_out[:3] == ("a review of each product", "passage p3", "passage p2")
    assert version.prompt.count("fact fact") == 60  # of two passages
    assert len(version.prompt.split()) + 10 <= 300


def test_the_target_and_its_description_stay():
    version, _ = fitted(60, (200,))  # the target's 65 words, two passages of 61, and 10 for the answer
    assert version.left_out[-3:] == ("product B3", "product B1", "product B0")
    assert "long long" in version.prompt
    assert "CatalogueProduct B2" in version.prompt
    refused("use larger context sizes", fitted, 200, (210,))


@pytest.mark.parametrize(("words", "context"), [(10, 300), (30, 600)])
def test_the_smallest_context_that_holds_everything_is_taken(words, context):
    version, size = fitted(words, (300, 600, 900))
    assert size == context
    assert version.left_out == ()


@pytest.mark.parametrize("contexts", [(), (1, 2, 3, 4), (200, 100)])
def test_contexts_are_one_to_three_and_grow(contexts):
    refused("one to three, growing", fitted, 1, contexts)


class Scripted:
    """Models that answer from the prompt and keep what they were asked."""

    def __init__(self, answer):
        self.answer = answer
        self.requests = []

    def complete(self, spec, request):
        self.requests.append(request)
        return SimpleNamespace(text=self.answer(request), digest="scripted")


TURNS = (
    "S: What for?\nU: For home\nS: I see\nU: What do you suggest?\nS: Wait\nU: Yes?\nS: The {title}\n"
    "U: Is it good?\nS: It is\nU: How dear?\nS: Not very\nU: Thanks, I take it"
)
SHORT_REPLIES = {
    "cosrec product_query": '"Light Tent?"',
    "cosrec user_summary": " This buyer  likes light things. ",
    "cosrec user_keywords": "{Light; cheap ;light}",
}


def obedient(request):
    if request.role in SHORT_REPLIES:
        return SHORT_REPLIES[request.role]
    title = request.messages[0].content.partition('names "')[2].partition('"')[0]
    return f"U: I need something new {request.seed}\n{TURNS.format(title=title)}"


def writer(answer, **settings):
    config = GenerateSettings(writer="ollama:tiny", conversations=3, **settings)
    models = Scripted(answer)
    return Writer(config, str(SAMPLE), pool=models), models


@pytest.mark.slow
def test_a_scripted_model_leaves_all_its_evidence():
    maker, models = writer(obedient)
    record = maker.record(1)
    assert record["query"] == "light tent"
    assert record["target"] in record["products"]
    assert (len(record["products"]), len(record["passages"])) == (10, 10)
    request = models.requests[1]
    facts = record["prompts"]["conversation"]
    assert facts["prompt"] == request.messages[0].content
    assert facts["seed"] == request.seed is not None
    assert record["target_title"] in facts["prompt"]
    for asin in record["products"]:
        assert maker.stock.products[asin].title in facts["prompt"]
    assert request.options["num_ctx"] in maker.config.contexts
    assert len(record["users"]) > 0
    for user in record["users"]:
        assert user["keywords"] == ["light", "cheap"]
        assert user["summary"] == "This buyer likes light things."


@pytest.mark.slow
def test_every_prompt_is_asked_with_a_seed_of_its_own_and_again_the_same():
    maker, models = writer(obedient)
    record = json.dumps(maker.record(1))
    assert {request.role.split()[1] for request in models.requests} == set(PROMPTS)
    assert len({(request.role, request.seed) for request in models.requests}) == len(models.requests)
    assert json.dumps(maker.record(1)) == record


@pytest.mark.slow
def test_the_last_failure_of_all_attempts_is_told():
    maker, models = writer(lambda request: "tent" if "query" in request.role else "U: hello")
    refused(r"no usable conversation .* in 3 attempts: 1 user turns", maker.record, 0, error=RunError)
    assert len({request.seed for request in models.requests}) == 4  # a query and three drafts
    long, _ = writer(lambda request: "one two three four five six seven eight")
    refused("8 words, expected 1 to 7", long.record, 0, error=RunError)


def test_a_second_attempt_may_succeed():
    roles = []

    def late(request):
        roles.append(request.role)
        return "Sorry." if len(roles) == 2 else obedient(request)

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


@pytest.mark.slow
def test_the_same_again_and_with_two_workers(results):
    folder = generate(GenerateSettings(run="a", conversations=12))
    before = (folder / "generated.jsonl").read_bytes()
    generate(GenerateSettings(run="a", conversations=12))
    assert (folder / "generated.jsonl").read_bytes() == before
    generate(GenerateSettings(run="b", conversations=12, workers=2))
    assert (paths.run_folder("cosrec", "b") / "generated.jsonl").read_bytes() == before


@pytest.mark.slow
def test_failed_conversations_are_tried_again(results, monkeypatch):
    config = GenerateSettings(run="c", conversations=4)
    real = Writer.record
    numbers = []

    def unlucky(self, number):
        numbers.append(number)
        if numbers.count(2) == 1 and number == 2:
            raise RunError("the server is away")
        return real(self, number)

    monkeypatch.setattr(Writer, "record", unlucky)
    refused(r"1 of 4 .*the server is away", generate, config, error=RunError)
    generate(config)
    assert sorted(numbers) == [0, 1, 2, 2, 3]
    assert len(read_generated("c")) == 4


def test_collections_of_the_sample():
    stock = Stock(SAMPLE)
    assert (len(stock.products), len(stock.passages)) == (1591, 3120)
    first = next(iter(stock.products.values()))
    assert stock.search("products").search(first.search_text(), 1)[0].id == first.id
    assert first.search_text().startswith(first.title)
    assert first.block(2).count("a buyer:") == min(2, len(first.reviews))
    refused("no file", Stock, SAMPLE / "crowd", error=RunError)
    refused("need as many target products", Writer, GenerateSettings(conversations=9999), str(SAMPLE))


def test_profiles_by_rule_say_what_the_reviews_speak_of():
    texts = ["Worth it. It is light and packs small.", "Light! Half the weight of my old one.", "It broke. Not sturdy."]  # fmt: skip
    profile = drafts.profile_by_rule("A", texts)
    assert profile.keywords == ["light", "durable", "good value", "compact"]
    assert profile.summary == "This buyer cares about: light, durable, good value, compact."
    assert drafts.profile_by_rule("A", ["Xyzzy."]).keywords == ["quality"]
    refused("no reviews", drafts.profile_by_rule, "A", [])


@pytest.mark.parametrize("reply", ["light; cheap", "{}", "{a} {b}", "}a{"])
def test_keywords_that_cannot_be_read(reply):
    refused("one pair of braces", drafts.read_keywords, reply)


def by_rule(*titles):
    """A conversation by rule about passages of these titles."""
    target = product("B1", 3)
    passages = [Passage(f"p{n}", title, f"Fact {n} is known.") for n, title in enumerate(titles)]
    text = drafts.conversation_by_rule(target, [], passages, "a lamp", stream(1, "test"))
    assert drafts.judge(text, target.title, 1, 8).problems == ()
    return text


def test_template_asks_about_each_title_once():
    text = by_rule("Oil", "Wicks", "Wicks", "Soot")
    assert text.index("oil") < text.index("wicks") < text.index("soot")
    assert "Fact 1" in text
    assert "Fact 2" not in text


def test_the_template_needs_no_passages():
    assert "U: " in by_rule()


def test_the_preset_prints_every_value_of_the_design(capsys):
    assert main(["cosrec", "generate", "--preset", "design", "--estimate", "--reviews", "2"]) == 0
    lines = capsys.readouterr().out.partition("\n\n")[0].splitlines()
    values = dict(line.split(": ", 1) for line in lines)
    assert set(values) == set(DESIGN)
    assert values["reviews"] == "2"
    assert values["writer"] == "ollama:llama3.1"
    assert (values["seed"], values["query_words"]) == ("20250218", "7")


def test_the_prompt_names_the_longest_query():
    assert "At most 7 words" in prompts.render("cosrec/product_query", product="x", max_words=7)


def test_tokens_are_counted_by_a_tokenizer_file(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    counter = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    counter.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    counter.save(str(tmp_path / "tokenizer.json"))
    exact, models = writer(obedient, tokenizer=str(tmp_path / "tokenizer.json"))
    exact.record(1)
    request = models.requests[1]
    count = len(counter.encode(request.messages[0].content).ids) + 16
    assert request.tokens == count
    assert count < tokens_at_most(request.messages)
    refused("no tokenizer file", writer, obedient, tokenizer=str(tmp_path / "none.json"))


def test_without_a_tokenizer_no_tokens_are_counted():
    bound, models = writer(obedient)
    assert bound.record(1)["query"] == "light tent"
    assert {request.tokens for request in models.requests} == {0}


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A folder with a file of products and one of passages, and no corpus."""
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    part_of_sample(tmp_path / "part", products=80, passages=60)
    folder = tmp_path / "shop"
    folder.mkdir()
    (tmp_path / "part" / "products.jsonl").rename(folder / "ar-filtered.jsonl")
    (tmp_path / "part" / "passages.jsonl").rename(folder / "passages.jsonl")
    return folder


def test_the_options_of_the_published_script_are_options(shop, capsys):
    (shop / "query.txt").write_text("A query for {product_text}, at most $5")
    line = f"""--run s --random_seed 7 --bm25_k1 1.1 --bm25_b=0.7 --catalogue_filename {shop}/ar-filtered.jsonl
    --catalogue_size 12312760 --num_random_products 2 --num_products 5 --num_reviews 2 --num_documents 4
    --query_max_words 6 --query_tokenizer meta-llama/Llama-3.1-8B --conv_tokenizer meta-llama/Llama-3.1-8B
    --query_prompt_filename {shop}/query.txt --create_output_file False --output_filename {shop}/out.jsonl"""
    assert main(["cosrec", "generate", *line.split()]) == 0
    records = [json.loads(text) for text in (shop / "out.jsonl").read_text().splitlines()]
    assert len(records) == 2
    for record in records:
        assert len(record["products"]) == 5
        assert len(record["passages"]) == 4
    parameters = runs.Run("cosrec", "s").manifest()["stages"]["generate"]["parameters"]
    options = {"seed": 7, "k1": 1.1, "b": 0.7, "reviews": 2, "query_words": 6}
    assert options.items() <= parameters.items()
    own = paths.run_folder("cosrec", "s") / "prompts" / "product_query.txt"
    assert own.read_text() == "A query for ${product}, at most $$5"
    output = capsys.readouterr().out
    assert "products that are there, which are counted" in output
    assert "nothing is appended" in output
    assert "give its tokenizer.json" in output
    assert output.splitlines()[-1].startswith("products and passages read: 18; left out: none; list: ")


def test_a_model_without_a_backend_is_ollamas(capsys):
    names = ["--conv_model", "llama3.1", "--query_model", "ollama:llama3.2:1b", "--estimate"]
    assert main(["cosrec", "generate", *names]) == 0
    output = capsys.readouterr().out
    assert "ollama:llama3.1" in output
    assert "ollama:llama3.2:1b" in output


def test_folders_of_indexes_are_searched_or_refused(shop, capsys):
    files = ["--products", str(shop / "ar-filtered.jsonl"), "--passages", str(shop / "passages.jsonl")]
    assert main(["cosrec", "index", *files, "--out", str(shop / "index")]) == 0
    assert (
        capsys.readouterr().out.splitlines()[-1].startswith("products and passages read: 140; left out: none")
    )
    named = []
    for option in ("catalogue_sparse", "catalogue_dense", "documents_sparse"):
        named += [f"--{option}_index_folder", str(shop / "index")]
    assert main(["cosrec", "generate", "--run", "i", "--conversations", "1", *named]) == 0
    parameters = runs.Run("cosrec", "i").manifest()["stages"]["generate"]["parameters"]
    assert parameters["product_retrievers"] == ["bm25", "dense:hashing"]
    (shop / "faiss").mkdir()
    assert main(["cosrec", "generate", "--catalogue_dense_index_folder", str(shop / "faiss")]) == 2
    assert "an index of FAISS is not read" in capsys.readouterr().err


def test_a_notebook_takes_the_design_in_place_of_defaults():
    config = GenerateSettings.planned("design", run="d", products=10, reviews=2, product_retrievers=["bm25"])
    assert config.seed == DESIGN["seed"]
    assert config.writer == "ollama:llama3.1"
    assert config.reviews == 2
    assert config.product_retrievers == ("bm25",)
    assert GenerateSettings.planned("", run="d") == GenerateSettings(run="d")
    refused("preset is 'thesis'; give design", GenerateSettings.planned, "thesis")


@pytest.mark.parametrize(
    ("line", "message"),
    table(__file__, "passages_without_id"),
)
def test_a_passage_without_id_is_located(shop, line, message):
    first = (shop / "passages.jsonl").read_text().splitlines()[0]
    (shop / "passages.jsonl").write_text(f"{first}\n{line}\n")
    refused(f"passages.jsonl, {message}", Stock, shop / "ar-filtered.jsonl")
