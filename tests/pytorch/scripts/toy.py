"""What the scripts of this folder share: a small model, its data, and the lines that they print.

Data depend only on seed, step and replica, so a run that is continued from a checkpoint ends with the
same loss as one that was never stopped.
"""
import argparse
import os
import time

import torch
import torch.distributed as dist

WIDTH = 16
ROWS = 8


def arguments(words=None):
    """The command line that all of the scripts have."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True, help="folder of the checkpoints")
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--checkpoint-every", type=int, default=5, metavar="STEPS")
    parser.add_argument("--step-time", type=float, default=0.0, help="least seconds a step takes")
    return parser.parse_args(words)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(WIDTH, 4 * WIDTH)
        self.down = torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, rows):
        return rows + self.down(torch.nn.functional.gelu(self.up(rows)))


def make_model():
    """The same weights in every process."""
    torch.manual_seed(1)
    return torch.nn.Sequential(Block(), Block(), torch.nn.Linear(WIDTH, 1))


def batch(step, replica):
    """Inputs and targets of one replica at one step."""
    generator = torch.Generator().manual_seed((step << 16) + replica)
    inputs = torch.randn(ROWS, WIDTH, generator=generator)
    return inputs, inputs.sin().sum(dim=1, keepdim=True)


def loss_of(model, step, replica):
    inputs, targets = batch(step, replica)
    return torch.nn.functional.mse_loss(model(inputs), targets)


class Progress:
    """Prints the steps on rank 0, and the loss at the end with all of its bits."""

    def __init__(self, given):
        self.given = given
        self.began = time.monotonic()

    def start(self, first):
        if dist.get_rank() == 0:
            print(f"first step {first} of {dist.get_world_size()} ranks", flush=True)

    def step(self, step, loss):
        """Ends a step; returns the mean loss over all ranks."""
        mean = loss.detach().clone() / dist.get_world_size()
        dist.all_reduce(mean)
        time.sleep(max(0.0, self.given.step_time - (time.monotonic() - self.began)))
        self.began = time.monotonic()
        if dist.get_rank() == 0:
            print(f"step {step} loss {mean.item():.6f}", flush=True)
        return mean.item()

    def end(self, loss):
        if dist.get_rank() == 0:
            print(f"final loss {float(loss).hex()}", flush=True)


def save_file(path, state):
    """Replaces the file in one step, so that a kill at any moment leaves a complete one."""
    with open(path + ".new", "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)
