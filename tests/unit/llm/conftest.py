"""The test server can be imported, and no setting of this machine reaches a test."""

import pytest


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch):
    for name in ("OLLAMA_HOST", "OLLAMA_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
