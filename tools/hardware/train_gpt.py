"""A small GPT on DDP or FSDP2 that Longhaul runs, with snapshots in memory. Part of hardware_check.

Run by tools/hardware_check under `longhaul run`, on the GPUs of the machine or on its processor.
Data are drawn from the step and the rank, so that an interrupted training computes what an
uninterrupted one does. Rank 0 writes a JSON object to --result: the last loss, a hash of the
weights, the median time of a step, the peak of the GPU's memory.
"""

import argparse
import hashlib
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

import longhaul

SIZES = {  # layers, width, heads, vocabulary, sequence
    "tiny": (2, 64, 4, 256, 64),
    "gpt2": (12, 768, 12, 50257, 1024),
}


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, sequence, width = x.shape
        parts = self.queries_keys_values(self.norm_1(x)).chunk(3, dim=-1)
        parts = [part.view(batch, sequence, self.heads, -1).transpose(1, 2) for part in parts]
        attended = functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.projection(attended.transpose(1, 2).reshape(batch, sequence, width))
        return x + self.down(functional.gelu(self.up(self.norm_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, vocabulary, sequence):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(sequence, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        for weights in self.parameters():
            if weights.dim() > 1:
                nn.init.normal_(weights, std=0.02)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def sharded(model, mesh):
    """The model under fully_shard: each block, and then the rest."""
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:  # before PyTorch 2.6
        from torch.distributed._composable.fsdp import fully_shard
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


class Training:
    """The model, its optimizer and the state that snapshots hold."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.device = torch.device("cpu")
        if arguments.device == "cuda":
            self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) %
                                       torch.cuda.device_count())
            torch.cuda.set_device(self.device)
        dist.init_process_group(arguments.backend)
        torch.manual_seed(1)
        self.shape = SIZES[arguments.size]
        network = Gpt(*self.shape).to(self.device)
        if arguments.parallel == "fsdp2":
            from torch.distributed.device_mesh import init_device_mesh
            self.module = self.model = sharded(
                network, init_device_mesh(self.device.type, (self.world,)))
        else:
            self.module = network
            self.model = DistributedDataParallel(network, gradient_as_bucket_view=True)
        self.optimizer = torch.optim.AdamW(self.module.parameters(), lr=1e-3, foreach=True)

    def state(self):
        from torch.distributed.checkpoint.state_dict import get_state_dict
        weights, moments = get_state_dict(self.module, self.optimizer)
        return {"model": weights, "optimizer": moments}

    def restore(self):
        """The first step: 1, or the one after the restored state's."""
        from torch.distributed.checkpoint.state_dict import set_state_dict
        saved = longhaul.restore(into=self.state())
        if saved is None:
            return 1
        set_state_dict(self.module, self.optimizer, model_state_dict=saved.state["model"],
                       optim_state_dict=saved.state["optimizer"])
        return saved.step + 1

    def step(self, number):
        vocabulary, sequence = self.shape[3], self.shape[4]
        draws = torch.Generator().manual_seed(1_000_003 * number + self.rank)
        ids = torch.randint(vocabulary, (self.arguments.batch, sequence + 1), generator=draws)
        # A sequence that counts up can be learnt.
        ids = (ids[:, :1] + torch.arange(sequence + 1)) % vocabulary
        ids = ids.to(self.device)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.arguments.bf16):
            logits = self.model(ids[:, :-1])
            loss = functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        mean = loss.detach().float()
        dist.all_reduce(mean)
        return mean.item() / self.world

    def weights_hash(self):
        """Of all weights; every rank has to call this."""
        digest = hashlib.sha256()
        for value in self.module.state_dict().values():
            whole = value.full_tensor() if hasattr(value, "full_tensor") else value
            digest.update(whole.detach().float().cpu().numpy().tobytes())
        return digest.hexdigest()[:16]


def profiler_of(arguments, training):
    """torch.profiler over three steps, one file a rank; does nothing without --trace."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if arguments.device == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)

    def write(profile):
        profile.export_chrome_trace(os.path.join(arguments.trace, f"rank{training.rank}.json"))

    return torch.profiler.profile(
        activities=activities, on_trace_ready=write,
        schedule=torch.profiler.schedule(wait=3, warmup=2, active=3, repeat=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--backend", default="gloo")
    parser.add_argument("--parallel", choices=("ddp", "fsdp2"), default="ddp")
    parser.add_argument("--size", choices=sorted(SIZES), default="tiny")
    parser.add_argument("--batch", type=int, default=4, help="sequences a rank and step")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
    parser.add_argument("--trace", help="folder for traces of torch.profiler")
    parser.add_argument("--result", help="file for the figures of rank 0")
    arguments = parser.parse_args()
    training = Training(arguments)
    first = training.restore()
    profile = profiler_of(arguments, training) if arguments.trace else None
    if profile:
        profile.start()
    times, loss = [], 0.0
    for number in range(first, arguments.steps + 1):
        began = time.perf_counter()
        loss = training.step(number)  # the loss comes from the GPU, so the step has ended
        times.append(time.perf_counter() - began)
        if not profile:
            longhaul.snapshot(training.state(), number)
        longhaul.report(number, loss=loss, tokens=arguments.batch * training.world)
        if profile:
            profile.step()
    if profile:
        profile.stop()
    weights = training.weights_hash()
    if training.rank == 0 and arguments.result:
        peak = torch.cuda.max_memory_allocated() if arguments.device == "cuda" else 0
        with open(arguments.result, "w", encoding="utf-8") as file:
            json.dump({"loss": loss, "weights": weights, "first_step": first,
                       "step_seconds": statistics.median(times[len(times) // 4:] or [0.0]),
                       "peak_bytes": peak, "world": training.world}, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
