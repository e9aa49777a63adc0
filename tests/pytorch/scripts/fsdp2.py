"""fully_shard (FSDP2) with torch.distributed.checkpoint."""
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

import toy
from sharded import Checkpoints, fully_shard


def main():
    given = toy.arguments()
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = toy.make_model()
    for block in model:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
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
    checkpoints.wait()
    progress.end(mean)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
