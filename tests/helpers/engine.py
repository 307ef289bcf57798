"""A real language model in tests: llama.cpp with a few hundred kB of random weights, behind Ollama's paths.
The weights are drawn here (two layers, width 64, a vocabulary of bytes), so the text is noise, but everything
else is real: tokens, sampling by seed, JSON schemas enforced by a grammar, prompts that are too long. Needs
the extra ``llmtest`` (xllamacpp, gguf).
"""

import hashlib

import httpx
import numpy as np

from tests.helpers.ollama_server import Handler, OllamaServer

CONTEXT = 16_384  # a token is a byte here, so prompts are long
WIDTH = 64
LAYERS = 2
HEADS = 4
INNER = 128
CHAT = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def write_model(path, seed=0):
    """Write a model of random weights as GGUF; returns the hex SHA-256 of the file."""
    from gguf import GGUFWriter, TokenType

    draw = np.random.default_rng(seed)
    tokens = ["<unk>", "<s>", "</s>", "▁", *(f"<0x{byte:02X}>" for byte in range(256))]
    kinds = [TokenType.UNKNOWN, *[TokenType.CONTROL] * 2, TokenType.NORMAL, *[TokenType.BYTE] * 256]
    writer = GGUFWriter(path, "llama")
    facts = {
        "name": "random bytes",
        "context_length": CONTEXT,
        "embedding_length": WIDTH,
        "block_count": LAYERS,
        "feed_forward_length": INNER,
        "head_count": HEADS,
        "head_count_kv": HEADS,
        "layer_norm_rms_eps": 1e-5,
        "rope_dimension_count": WIDTH // HEADS,
        "vocab_size": len(tokens),
        "tokenizer_model": "llama",
        "token_list": tokens,
        "token_scores": [0.0] * len(tokens),
        "token_types": kinds,
        "unk_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "add_bos_token": True,
        "add_space_prefix": False,
        "chat_template": CHAT,
    }
    for name, value in facts.items():
        getattr(writer, f"add_{name}")(value)

    def weight(name, *shape):
        values = draw.normal(0, 0.3, shape) if len(shape) > 1 else np.ones(shape)
        writer.add_tensor(f"{name}.weight", values.astype(np.float32))

    weight("token_embd", len(tokens), WIDTH)
    for layer in range(LAYERS):
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            weight(f"blk.{layer}.{part}", WIDTH, WIDTH)
        shapes = {"gate": (INNER, WIDTH), "up": (INNER, WIDTH), "down": (WIDTH, INNER), "norm": (WIDTH,)}
        for part, shape in shapes.items():
            weight(f"blk.{layer}.ffn_{part}", *shape)
        weight(f"blk.{layer}.attn_norm", WIDTH)
    weight("output_norm", WIDTH)
    weight("output", len(tokens), WIDTH)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return hashlib.sha256(path.read_bytes()).hexdigest()


class _Handler(Handler):
    """Chat requests, translated to the engine's own endpoint."""

    def chat(self, body, fault):
        options = body.get("options", {})
        prompt = "".join(f"<{m['role']}>{m['content']}</{m['role']}>\n" for m in body["messages"])
        wanted = {"prompt": f"{prompt}<assistant>", "n_predict": options.get("num_predict", 64)}
        arguments = ("seed", "temperature", "top_k", "top_p")
        wanted |= {name: options[name] for name in arguments if name in options}
        if body.get("format"):
            wanted["json_schema"] = body["format"]
        answer = self.owner.client.post("/completion", json=wanted)
        result = answer.json()
        if answer.status_code != 200:
            return self.answer({"error": result["error"]["message"]}, answer.status_code)
        return self.answer(
            {
                "model": body["model"],
                "created_at": "2026-01-01T00:00:00Z",
                "done": True,
                "message": {"role": "assistant", "content": result["content"]},
                "done_reason": "length" if result["stop_type"] == "limit" else "stop",
                "prompt_eval_count": result["tokens_evaluated"],
                "eval_count": result["tokens_predicted"],
            }
        )


class Engine(OllamaServer):
    """The engine and the adapter; a context manager. ``url`` speaks Ollama, ``openai_url`` is the engine's own."""

    handler = _Handler
    model = "random:bytes"

    def __init__(self, folder):
        from xllamacpp import CommonParams, Server

        path = folder / "model.gguf"
        self.digest = write_model(path)
        arguments = CommonParams()
        arguments.model.path = str(path)
        arguments.model_alias = {self.model}
        arguments.n_ctx = CONTEXT
        arguments.n_parallel = 1
        arguments.n_gpu_layers = 0
        arguments.cpuparams.n_threads = arguments.cpuparams_batch.n_threads = 1
        arguments.n_threads_http = 2
        arguments.warmup = False
        arguments.port = 0
        arguments.verbosity = -1
        arguments.ui = arguments.fit_params = arguments.cache_prompt = False
        arguments.force_pure_content_parser = True  # noise has no chat format to be parsed
        self._engine = Server(arguments)
        self.openai_url = str(self._engine.listening_address)
        super().__init__({self.model: self.digest}, context=CONTEXT)
        self.client = httpx.Client(base_url=self.openai_url, timeout=60.0, trust_env=False)

    def __exit__(self, *_):
        super().__exit__()
        self.client.close()
        self._engine = None
