"""DistributedDataParallel with torch.distributed.checkpoint save and load."""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import toy
from sharded import Checkpoints


def main():
    given = toy.arguments()
    dist.init_process_group("gloo")
    model = DistributedDataParallel(toy.make_model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    checkpoints = Checkpoints(given.folder, model, optimizer)
    first = checkpoints.load()
    progress = toy.Progress(given)
    progress.start(first)
    for step in range(first, given.steps + 1):
        loss = toy.loss_of(model, step, dist.get_rank())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = progress.step(step, loss)
        if step % given.checkpoint_every == 0:
            checkpoints.save(step)
    progress.end(mean)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
