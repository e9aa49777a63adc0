"""A small GPT that is started as nanoGPT is: a configuration file, then --name=value.

    torchrun --standalone --nproc_per_node=2 gpt.py gpt_config.py --out_dir=out --max_iters=15

It uses DistributedDataParallel if RANK is set. With init_from='auto' it continues from ckpt.pt in
out_dir if that exists.
"""
import ast
import os
import sys
import time

import torch
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel

config = {"out_dir": "out", "max_iters": 15, "eval_interval": 5, "batch_size": 4, "block_size": 16,
          "n_embd": 16, "n_layer": 2, "n_head": 2, "learning_rate": 1e-3, "backend": "gloo",
          "init_from": "scratch", "iter_time": 0.0}


def read_config(words):
    for word in words:
        if not word.startswith("--"):
            with open(word) as file:
                exec(file.read(), {}, config)
            continue
        name, value = word[2:].split("=", 1)
        try:
            config[name] = ast.literal_eval(value)
        except (SyntaxError, ValueError):
            config[name] = value


class Gpt(torch.nn.Module):
    def __init__(self, vocabulary=64):
        super().__init__()
        width = config["n_embd"]
        self.tokens = torch.nn.Embedding(vocabulary, width)
        self.positions = torch.nn.Embedding(config["block_size"], width)
        layer = torch.nn.TransformerEncoderLayer(width, config["n_head"], 4 * width, dropout=0.0,
                                                 batch_first=True, norm_first=True)
        self.blocks = torch.nn.TransformerEncoder(layer, config["n_layer"],
                                                  enable_nested_tensor=False)
        self.head = torch.nn.Linear(width, vocabulary)

    def forward(self, tokens, targets):
        count = tokens.shape[1]
        mask = torch.nn.Transformer.generate_square_subsequent_mask(count)
        hidden = self.tokens(tokens) + self.positions(torch.arange(count))
        logits = self.head(self.blocks(hidden, mask=mask))
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def batch(iteration, rank):
    generator = torch.Generator().manual_seed((iteration << 16) + rank)
    shape = (config["batch_size"], config["block_size"] + 1)
    tokens = torch.randint(0, 64, shape, generator=generator)
    return tokens[:, :-1], tokens[:, 1:]


def main():
    read_config(sys.argv[1:])
    rank = int(os.environ.get("RANK", "-1"))
    if rank >= 0:
        init_process_group(backend=config["backend"])
    master = rank in (-1, 0)
    torch.manual_seed(1337)
    model = Gpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["learning_rate"])
    path, first = os.path.join(config["out_dir"], "ckpt.pt"), 1
    if config["init_from"] == "auto" and os.path.exists(path):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["iter_num"] + 1
    if master:
        os.makedirs(config["out_dir"], exist_ok=True)
        print(f"first step {first}", flush=True)
    wrapped = DistributedDataParallel(model) if rank >= 0 else model
    for iteration in range(first, config["max_iters"] + 1):
        time.sleep(config["iter_time"])
        loss = wrapped(*batch(iteration, max(rank, 0)))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if not master:
            continue
        print(f"iter {iteration}: loss {loss.item():.4f}, time 0ms", flush=True)
        if iteration % config["eval_interval"] == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                        "iter_num": iteration}, path + ".new")
            os.replace(path + ".new", path)
    if master:
        print(f"final loss {loss.item().hex()}", flush=True)
    if rank >= 0:
        destroy_process_group()


if __name__ == "__main__":
    main()
