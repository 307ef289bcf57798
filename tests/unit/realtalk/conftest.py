import datetime as dt
import os

import pytest

from crs_lib.core import paths
from crs_lib.realtalk import agent, corpus, index, search

MODELS = paths.external() / "models"


@pytest.fixture(scope="session", autouse=True)
def caches(tmp_path_factory):
    """Caches are shared by the session, outside the repository."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRS_DATA", str(tmp_path_factory.getbasetemp() / "crs_data"))
        _link_models()
        yield


def _link_models():
    linked = paths.external() / "models"  # the encoders are used where they are, not downloaded again
    if MODELS.is_dir() and not linked.exists():
        linked.parent.mkdir(parents=True, exist_ok=True)
        linked.symlink_to(MODELS)


@pytest.fixture(scope="session")
def sample():
    return corpus.read_chat(paths.samples() / "realtalk" / "Chat_0_Mira_Tobias.json")


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))


@pytest.fixture(scope="session")
def built(sample):
    """The sample's index, made once: nothing in it depends on a question."""
    return index.build(sample, "hashing")


@pytest.fixture(scope="session")
def predictions(built):
    """The predictions for the sample's questions, in order."""
    return list(agent.predict(built, search.Hand()))


@pytest.fixture
def make_chat():
    """A chat from sessions of (speaker, text) pairs; one message a minute, a session a day."""

    def make(*sessions, qa=(), name="Chat_1_Ann_Ben"):
        record = {"name": {"speaker_1": "Ann", "speaker_2": "Ben"}, "qa": list(qa)}
        for n, session in enumerate(sessions, start=1):
            messages = []
            for i, (speaker, text) in enumerate(session):
                time = dt.datetime(2024, 1, n, 10) + dt.timedelta(minutes=i)
                message = {"clean_text": text, "speaker": speaker, "dia_id": f"D{n}:{i + 1}"}
                messages.append({**message, "date_time": f"{time:%d.%m.%Y, %H:%M:%S}"})
            record[f"session_{n}"] = messages
        return corpus.parse_chat(record, name)

    return make


@pytest.fixture
def mirror():
    """The folder of external data, kept for the test; skips where none is named."""
    folder = paths.mirror()
    if folder is None or not (folder / "realtalk").is_dir():
        pytest.skip("no external data: set CRS_MIRROR to a folder that holds realtalk/ and locomo/")
    return folder


os.environ.setdefault("LANGSMITH_TRACING", "false")
