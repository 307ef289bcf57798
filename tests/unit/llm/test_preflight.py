"""Preflight: one message that lists everything that is missing, before anything starts."""

import os
import subprocess
import sys
from typing import Any

import pytest

from crs_lib.core.errors import InputError, RunError
from crs_lib.llm import http
from crs_lib.llm.preflight import Need, preflight
from tests.helpers.ollama_server import DIGEST, OllamaServer


def test_all_is_well():
    with OllamaServer(["gemma:2b", "qwen"], context=4096) as server:
        host: dict[str, Any] = {"settings": {"host": server.url}}
        found = preflight([
            Need("crs", "ollama:gemma:2b", {"num_ctx": 4096}, prompt=1000, **host),
            Need("judge", "openai:qwen", {"num_ctx": 2048}, **host),
            Need("user", "template"),
        ])  # fmt: skip
    assert found["digest"].tolist() == [DIGEST, "model:qwen", "template-1"]
    assert found["context"].fillna(0).tolist() == [4096, 4096, 0]
    assert found["version"].fillna("").tolist() == ["0.13.0", "", ""]
    assert server.chats == 0


def test_all_that_is_missing_is_said_at_once():
    with OllamaServer(["gemma:2b"], context=4096) as server, OllamaServer(version="0.3.14") as old:
        host: dict[str, Any] = {"settings": {"host": server.url}}
        with pytest.raises(RunError) as caught:
            preflight([
                Need("crs", "ollama:gemma:7b", **host),
                Need("crs", "ollama:gemma:2b", {"num_ctx": 8192}, **host),
                Need("judge", "ollama:gemma:2b", {"num_ctx": 4096, "num_predict": 96}, 5000, **host),
                Need("topics", "ollama:tiny", settings={"host": old.url}),
                Need("user", "openai:vicuna", **host),
                Need("user", "ollama:tiny", settings={"host": "127.0.0.1:1"}),
                Need("user", "olama:tiny"),
            ])  # fmt: skip
    said = str(caught.value)
    assert "7 things are missing" in said
    assert "did you mean 'gemma:2b'" in said and "ollama pull gemma:7b" in said
    assert "context of 4096 tokens, num_ctx asks for 8192" in said
    assert "set num_ctx to 5096 or more" in said  # 5000 of prompt + 96 of answer
    assert "is 0.3.14" in said and "update it to 0.5.0" in said
    assert "serves gemma:2b, not vicuna" in said
    assert "127.0.0.1:1" in said and "did you mean 'ollama'" in said
    assert len(said.splitlines()) == 8


@pytest.mark.parametrize(("given", "expected"), [
    ("gpu1", ("http://gpu1:11434",)),
    ("gpu1:8080, https://gpu2 ,", ("http://gpu1:8080", "https://gpu2")),
    ("0.0.0.0", ("http://127.0.0.1:11434",)),
    (":5000", ("http://127.0.0.1:5000",)),
    ("[::1]:5000", ("http://[::1]:5000",)),
    ("::1", ("http://[::1]:11434",)),
    ("http://gpu1:80/api/", ("http://gpu1:80/api",)),
])  # fmt: skip
def test_addresses_are_read_as_people_write_them(given, expected):
    assert http.parse(given, port=11434, variable="OLLAMA_HOST") == expected


@pytest.mark.parametrize("given", [
    "", " , ", "ftp://gpu1", "gpu1:port", "a,a", "a b", "http://me:s3cret@gpu1", "http://gpu1/?key=s3cret",
    "gpu1#s3cret", "http://gpu1:8000/v1;s3cret",
])  # fmt: skip
def test_addresses_that_cannot_be_used_are_refused(given):
    with pytest.raises(InputError) as caught:
        http.parse(given, port=11434, variable="OLLAMA_HOST")
    assert "s3cret" not in str(caught.value)


@pytest.mark.subprocess
def test_a_list_of_servers_in_the_environment_reaches_all_of_them():
    ask = "from crs_lib.llm.preflight import Need, preflight; print(len(preflight([Need('crs', 'ollama:tiny')])))"
    with OllamaServer() as one, OllamaServer() as two:
        hosts = f"{one.url.removeprefix('http://')},{two.url.removeprefix('http://')}"
        command = [sys.executable, "-c", ask]
        done = subprocess.run(
            command, env={**os.environ, "OLLAMA_HOST": hosts}, capture_output=True, text=True, check=False
        )
    assert (done.stdout.strip(), done.returncode) == ("1", 0), done.stderr


def test_a_server_that_is_not_there_says_how_to_start_it():
    with pytest.raises(RunError, match=r"one thing is missing(.|\n)*start it with: ollama serve"):
        preflight([Need("crs", "ollama:tiny", settings={"host": "127.0.0.1:1"})])
