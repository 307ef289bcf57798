"""Teaches MiniLM what evidence in chat looks like; writes the low-rank updates that come with the package.

Question and evidence are drawn together, other messages of the same conversation pushed away: best token
matches (ColBERT), in the first and in the second person, and sentence vectors, each with a softmax over some
messages. Only low-rank factors beside the attention and feed-forward weights learn (LoRA). Three updates are
made from LoCoMo: by all seven conversations, by 1 to 4, and by 5 to 7, so that each of them can be ranked by
one that it did not teach. Needs torch, safetensors and tokenizers beside the extras embed, and the data set
locomo; about half an hour on one core. Run: python -m benchmarks.tune_minilm
"""

import argparse
import math
import random
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks import low_rank
from crs_lib import data as datasets
from crs_lib.realtalk import corpus, index, search
from crs_lib.retrieval import encoders

SITES = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)
PARTS = {"all": range(1, 8), "first": range(1, 5), "second": range(5, 8)}
RANK, DROPOUT, RATE, STEPS, SCHEDULE = 8, 0.1, 1e-3, 114, 342
QUESTIONS, GOLD, NEAR, FAR, LONGEST, PADDED = 6, 3, 3, 3, 160, 1200


class Tuned(nn.Module):
    """MiniLM with frozen weights and learning low-rank factors beside them."""

    def __init__(self):
        super().__init__()
        found = encoders.NumpyModel()
        found.tokenizer.enable_truncation(LONGEST)
        self.tokenizer = found.tokenizer
        self.fixed = {name: torch.tensor(np.asarray(t)) for name, t in found.tensors.items()}
        self.one, self.two = nn.ParameterDict(), nn.ParameterDict()
        for layer in range(encoders.LAYERS):
            for site in SITES:
                inputs, outputs = self.fixed[f"encoder.layer.{layer}.{site}.weight"].shape
                key = f"{layer}|{site}".replace(".", "/")
                self.one[key] = nn.Parameter(torch.randn(inputs, RANK) / math.sqrt(inputs))
                self.two[key] = nn.Parameter(torch.zeros(RANK, outputs))

    def linear(self, x, layer, site):
        """A layer's product, with the low-rank one added."""
        name, key = f"encoder.layer.{layer}.{site}", f"{layer}|{site}".replace(".", "/")
        low = functional.dropout(x, DROPOUT, self.training) @ self.one[key] @ self.two[key]
        return x @ self.fixed[f"{name}.weight"] + self.fixed[f"{name}.bias"] + low

    def norm(self, x, name):
        """Layer normalisation by its published weights."""
        weight, bias = self.fixed[f"{name}.weight"], self.fixed[f"{name}.bias"]
        return functional.layer_norm(x, (encoders.WIDTH,), weight, bias, 1e-12)

    def states(self, ids):
        """Hidden states of padded texts, (texts, pieces, 384), and which pieces are there."""
        longest = max(map(len, ids))
        pieces = torch.tensor([row + [0] * (longest - len(row)) for row in ids])
        here = torch.tensor([[True] * len(row) + [False] * (longest - len(row)) for row in ids])
        x = self.fixed["embeddings.word_embeddings.weight"][pieces]
        x = x + self.fixed["embeddings.position_embeddings.weight"][:longest]
        x = self.norm(x + self.fixed["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for layer in range(encoders.LAYERS):
            name, (texts, length, _) = f"encoder.layer.{layer}", x.shape
            query, key, value = (
                self.linear(x, layer, f"attention.self.{part}")
                .view(texts, length, encoders.HEADS, -1)
                .transpose(1, 2)
                for part in ("query", "key", "value")
            )
            mixed = functional.scaled_dot_product_attention(query, key, value, here[:, None, None, :])
            mixed = mixed.transpose(1, 2).reshape(texts, length, encoders.WIDTH)
            x = self.norm(x + self.linear(mixed, layer, SITES[3]), f"{name}.attention.output.LayerNorm")
            wide = functional.gelu(self.linear(x, layer, SITES[4]))
            x = self.norm(x + self.linear(wide, layer, SITES[5]), f"{name}.output.LayerNorm")
        return x, here

    def forward(self, texts):
        """Sentence vectors (texts, 384), token vectors (texts, pieces, 384) and which are no markers."""
        ids = [encoding.ids for encoding in self.tokenizer.encode_batch(list(texts))]
        order, parts = sorted(range(len(ids)), key=lambda i: len(ids[i])), [[]]
        for i in order:
            if parts[-1] and (len(parts[-1]) + 1) * len(ids[i]) > PADDED:
                parts.append([])
            parts[-1].append(i)
        longest, sentences, tokens, inside = max(map(len, ids)), [], [], []
        for part in parts:
            x, here = self.states([ids[i] for i in part])
            share = here.float()[:, :, None]
            sentences.append(functional.normalize((x * share).sum(1) / share.sum(1), dim=-1))
            words = here.clone()
            words[:, 0] = False
            for row, i in enumerate(part):
                words[row, len(ids[i]) - 1] = False
            pad = longest - x.shape[1]
            tokens.append(functional.pad(functional.normalize(x, dim=-1), (0, 0, 0, pad)))
            inside.append(functional.pad(words, (0, pad)))
        back = torch.tensor(np.argsort(order))
        return torch.cat(sentences)[back], torch.cat(tokens)[back], torch.cat(inside)[back]

    def factors(self):
        """The learnt factors by published weight name."""
        names = [f"encoder.layer.{layer}.{site}" for layer in range(encoders.LAYERS) for site in SITES]
        pairs = zip(self.one.values(), self.two.values(), strict=True)
        return {
            f"{name}.weight": (one.detach().numpy(), two.detach().numpy())
            for name, (one, two) in zip(names, pairs, strict=True)
        }


def matches(query, asked, tokens, inside):
    """Mean over a query's tokens of the best match in each message, (queries, messages)."""
    flat = query.reshape(-1, encoders.WIDTH) @ tokens.reshape(-1, encoders.WIDTH).T
    best = flat.view(*query.shape[:2], *tokens.shape[:2]).masked_fill(~inside, -1e4).amax(-1)
    best = torch.where(inside.any(1), best, torch.zeros(()))
    return (best * asked[:, :, None]).sum(1) / asked.sum(1).clamp(min=1)[:, None]


def questions(chat):
    """Of each question with evidence: its wordings, its evidence, and the messages in the hand order."""
    built, gold = index.build(chat, index.BEST), corpus.gold(chat)
    asked = [q for q in chat.questions if q.index in gold]
    plans = [built.plan(q.text) for q in asked]
    for q, made, scores in zip(
        asked, plans, search.scores(built, [q.text for q in asked], plans), strict=True
    ):
        order = search.ranking(search.fuse(built, made, scores)).tolist()
        yield made.first_person, made.second_person, sorted(gold[q.index]), order


def batches(chats):
    """Six questions of one conversation at a time, in random order."""
    found = []
    for texts, asked in chats:
        places = [i for i, (_, _, gold, _) in enumerate(asked) if any(texts[g] for g in gold)]
        random.shuffle(places)
        found += [
            (texts, [asked[i] for i in places[k : k + QUESTIONS]]) for k in range(0, len(places), QUESTIONS)
        ]
    random.shuffle(found)
    return found


def loss_of(model, sharpness, texts, asked):
    """Each evidence message against all that are evidence of none of its question, mean over three scores."""
    drawn = []
    for _, _, gold, order in asked:
        drawn += random.sample(gold, min(GOLD, len(gold)))
        other = [place for place in order[:60] if place not in gold]
        drawn += random.sample(other[:20], min(NEAR, len(other[:20])))
        drawn += random.sample(other[20:], min(FAR, len(other[20:])))
    places = sorted(set(drawn))
    right = torch.tensor([[place in set(gold) for place in places] for _, _, gold, _ in asked])
    n = len(asked)
    sentences, tokens, inside = model([q[0] for q in asked] + [q[1] for q in asked])
    told, words, there = model([texts[place] or " " for place in places])
    first = matches(tokens[:n], inside[:n], words, there)
    second = matches(tokens[n:], inside[n:], words, there)
    loss = 0
    for scale, scores in zip(sharpness, (first, second, sentences[:n] @ told.T), strict=True):
        logits = scores * scale.exp()
        others = torch.logsumexp(logits.masked_fill(right, -1e4), 1, keepdim=True)
        each = torch.logaddexp(logits, others) - logits
        loss = loss + ((each * right).sum(1) / right.sum(1).clamp(min=1)).mean()
    return loss


def learn(chats):
    """The factors after 114 steps of a schedule of 342; more rank no better on RealTalk's train chats."""
    random.seed(0)
    torch.manual_seed(0)
    model, sharpness = Tuned(), nn.Parameter(torch.tensor([3.0, 3.0, 3.0]))
    groups = [{"params": list(model.parameters()), "weight_decay": 0.01}]
    batches(chats)  # one draw is left unused, as when the updates of the package were made
    learner = torch.optim.AdamW([*groups, {"params": [sharpness], "lr": 0.01, "weight_decay": 0}], RATE)
    left = []
    for step in range(STEPS):
        left = left or batches(chats)
        texts, asked = left.pop(0)
        share = min(1, (step + 1) / (0.1 * SCHEDULE)) * max(0.05, 1 - step / SCHEDULE)
        learner.param_groups[0]["lr"] = RATE * share
        loss = loss_of(model.train(), sharpness, texts, asked)
        learner.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        learner.step()
        print(f"step {step + 1}: {loss.item():.3f}", flush=True)
    return model.factors()


def main():
    """Makes the three updates and writes them beside the rankers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=index.UPDATES)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    chats = [c for c in corpus.read_folder(datasets.locate(corpus.LOCOMO)) if corpus.number(c.name) <= 7]
    updates, told = {}, {}
    for name in arguments.parts:
        taught = [c for c in chats if corpus.number(c.name) in PARTS[name]]
        print(f"{name}: taught by {len(taught)} conversations", flush=True)
        updates[name] = learn([([m.text for m in c.messages], list(questions(c))) for c in taught])
        told[name] = {"taught by": [f"LoCoMo {c.name}" for c in taught]}
    record = {
        "base": "all-MiniLM-L6-v2",
        "made by": "python -m benchmarks.tune_minilm",
        "licence": "taught by the questions and evidence of LoCoMo (CC BY-NC 4.0); holds numbers only",
        "updates": told,
        "chats": {f"LoCoMo {c.name}": c.sketch for c in chats},
    }
    low_rank.write(arguments.out, updates, record)
    print(f"{arguments.out}: {', '.join(updates)}")


if __name__ == "__main__":
    main()
