"""fully_shard (FSDP2) over one dimension of a mesh, DTensor tensor parallelism over the other."""
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel, RowwiseParallel, parallelize_module)

import toy
from sharded import Checkpoints, fully_shard


def main():
    given = toy.arguments()
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size() // 2, 2),
                            mesh_dim_names=("data", "tensor"))
    model = toy.make_model()
    for block in list(model)[:-1]:
        parallelize_module(block, mesh["tensor"],
                           {"up": ColwiseParallel(), "down": RowwiseParallel()})
        fully_shard(block, mesh=mesh["data"])
    fully_shard(model, mesh=mesh["data"])
    # Tensors on meshes of one and of two dimensions cannot share a "foreach" kernel.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False)
    checkpoints = Checkpoints(given.folder, model, optimizer)
    first = checkpoints.load()
    progress = toy.Progress(given)
    progress.start(first)
    for step in range(first, given.steps + 1):
        loss = toy.loss_of(model, step, mesh["data"].get_local_rank())
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
