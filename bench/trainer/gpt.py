#!/usr/bin/env python3
"""The built-in trainer's GPT in PyTorch, as its users write it; throughput.py runs it.

  gpt.py SETTINGS.json

Fused scaled dot-product attention, fused AdamW, and DistributedDataParallel over Gloo where
WORLD_SIZE is above 1. Rank 0 prints "step N loss L at T s" after each step.
"""

import contextlib
import json
import math
import os
import struct
import sys
import time

import torch
from torch import distributed, nn
from torch.nn import functional

SEPARATOR = 256


class Layer(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(hidden)
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.output = nn.Linear(hidden, hidden)
        self.mlp_norm = nn.LayerNorm(hidden)
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        batch, length, hidden = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.attention_norm(x)).split(hidden, dim=2))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.output(mixed.transpose(1, 2).reshape(batch, length, hidden))
        up = functional.gelu(self.up(self.mlp_norm(x)), approximate="tanh")
        return x + self.down(up)


class Gpt(nn.Module):
    def __init__(self, layers, hidden, heads, sequence, vocabulary=257):
        super().__init__()
        self.token = nn.Embedding(vocabulary, hidden)
        self.previous = nn.ModuleList(nn.Embedding(vocabulary, hidden) for _ in range(3))
        self.position = nn.Parameter(torch.empty(sequence, hidden))
        self.layers = nn.ModuleList(Layer(hidden, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, vocabulary, bias=False)

    def forward(self, ids, targets):
        x = self.token(ids) + self.position
        for back, table in enumerate(self.previous, 1):
            x = x + table(functional.pad(ids, (back, 0), value=SEPARATOR)[:, :ids.shape[1]])
        for layer in self.layers:
            x = layer(x)
        return functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())

    def load(self, path):
        """The weights of a checkpoint of the built-in trainer (safetensors)."""
        with open(path, "rb") as file:
            head = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
            values = memoryview(bytearray(file.read()))
        names = {"token.weight": "embedding.token.weight", "position": "embedding.position.weight",
                 "head.weight": "output.weight"}
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                stored = "model." + names.get(name, name.replace("_norm", ".norm"))
                if name.startswith("previous."):
                    back = int(name.split(".")[1]) + 1
                    stored = f"model.embedding.previous.{back}.weight"
                elif name.startswith("layers."):
                    stored = (stored.replace("up.", "mlp.up.").replace("down.", "mlp.down.")
                              .replace("qkv", "attention.qkv").replace("output", "attention.output")
                              .replace("mlp.norm", "mlp.norm"))
                begin, end = head[stored]["data_offsets"]
                parameter.copy_(torch.frombuffer(values[begin:end], dtype=torch.float32)
                                .view(head[stored]["shape"]))


def learning_rate(train, step):
    """src/trainer/model/schedule.h"""
    warmup, peak = train["warmup_steps"], train["learning_rate"]
    if step < warmup:
        return peak * step / warmup
    first = max(warmup, 1)
    done = 1 if train["steps"] <= first else (step - first) / (train["steps"] - first)
    low = train["final_learning_rate_ratio"]
    return peak * (low + (1 - low) * 0.5 * (1 + math.cos(math.pi * done)))


def batches(settings, rank, world):
    """For each step the tokens of this rank's sequences, [sequences, sequence + 1]."""
    length = settings["model"]["sequence"]
    with open(settings["tokens"], "rb") as file:
        tokens = torch.frombuffer(bytearray(file.read()[64:]), dtype=torch.uint16)
    with open(settings["samples"], "rb") as file:
        records = file.read()
    count = settings["train"]["global_batch"]
    size = 32 + 8 * count + 8
    begin, end = count * rank // world, count * (rank + 1) // world
    for step in range(settings["train"]["steps"]):
        chosen = struct.unpack_from(f"<{count}Q", records, step * size + 32)[begin:end]
        yield torch.stack([tokens[i * length:(i + 1) * length + 1] for i in chosen]).long()


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        settings = json.load(file)
    torch.set_num_threads(1)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    train, shape = settings["train"], settings["model"]
    model = Gpt(shape["layers"], shape["hidden"], shape["heads"], shape["sequence"])
    model.load(settings["weights"])
    decayed = [p for n, p in model.named_parameters() if p.dim() == 2 and n != "position"]
    others = [p for n, p in model.named_parameters() if p.dim() == 1 or n == "position"]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": train["weight_decay"]},
         {"params": others, "weight_decay": 0}],
        betas=(train["beta1"], train["beta2"]), eps=1e-8, fused=True)
    run = model
    if world > 1:
        distributed.init_process_group("gloo")
        run = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    if settings["compile"]:
        run = torch.compile(run)
    for step, batch in enumerate(batches(settings, rank, world), 1):
        parts = batch.split(settings["micro_batch"] or len(batch))
        total = 0.0
        for i, part in enumerate(parts):
            last = i + 1 == len(parts)
            with contextlib.nullcontext() if world == 1 or last else run.no_sync():
                loss = run(part[:, :-1], part[:, 1:]) * (len(part) / len(batch))
                loss.backward()
            total += loss.item()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(train, step)
        torch.nn.utils.clip_grad_norm_(model.parameters(), train["clip"])
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        mean = torch.tensor(total / world, dtype=torch.float64)
        if world > 1:
            distributed.all_reduce(mean)
        if rank == 0:
            print(f"step {step} loss {mean.item():.6f} at {time.monotonic():.4f} s", flush=True)
    if world > 1:
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
