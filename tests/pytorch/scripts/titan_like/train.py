"""A training module that is started as torchtitan is: `torchrun ... -m titan_like.train --job.config_file F`.

fully_shard over all ranks, and torch.distributed.checkpoint in the folder that the file names.
"""
import argparse
import os
import time
import tomllib

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.elastic.multiprocessing.errors import record

import toy
from sharded import Checkpoints, fully_shard


@record
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--job.config_file", dest="file", required=True)
    parser.add_argument("--training.steps", dest="steps", type=int)
    given = parser.parse_args()
    with open(given.file, "rb") as file:
        config = tomllib.load(file)
    steps = given.steps or config["training"]["steps"]
    every = config["checkpoint"]["interval"]
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (int(os.environ["WORLD_SIZE"]),))
    model = toy.make_model()
    for block in model:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    checkpoints = Checkpoints(config["checkpoint"]["folder"], model, optimizer)
    first = checkpoints.load()
    if dist.get_rank() == 0:
        print(f"first step {first}", flush=True)
    for step in range(first, steps + 1):
        time.sleep(config["training"]["step_time"])
        loss = toy.loss_of(model, step, dist.get_rank())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone() / dist.get_world_size()
        dist.all_reduce(mean)
        if dist.get_rank() == 0:
            print(f"step: {step:2}  loss: {mean.item():8.5f}  memory:  0.00GiB(0.00%)", flush=True)
        if step % every == 0:
            checkpoints.save(step)
    if dist.get_rank() == 0:
        print(f"final loss {mean.item().hex()}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
