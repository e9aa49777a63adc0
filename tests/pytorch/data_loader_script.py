"""Prints the samples of each batch of a StatefulDataLoader, whose state is in the snapshots.

usage (under longhaul run): data_loader_script.py STEPS STEP_TIME WORKERS
"""
import os
import sys
import time

import torch
import torch.distributed as dist
from torchdata.stateful_dataloader import StatefulDataLoader

import longhaul


class Numbers(torch.utils.data.Dataset):
    """Sample i is the number i."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return index


def main():
    steps, step_time, workers = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    # Each rank shuffles by itself, so the states of the ranks differ.
    loader = StatefulDataLoader(Numbers(), batch_size=4, shuffle=True, num_workers=workers,
                                generator=torch.Generator().manual_seed(rank))
    weight = torch.zeros(8)
    state = {"weight": weight, "data": loader}
    saved = longhaul.restore(into=state)
    step = saved.step if saved else 0
    attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
    while step < steps:
        for batch in loader:
            step += 1
            print(f"attempt {attempt} rank {rank} step {step} batch {batch.tolist()}", flush=True)
            weight += batch.sum()
            dist.all_reduce(weight)
            time.sleep(step_time)
            if step % 4 == 0:
                longhaul.snapshot(state, step)
            longhaul.report(step)
            if step == steps:
                break
    dist.destroy_process_group()


main()
