"""One mode of dcp_test in each of several ranks: an FSDP2 state, saved and loaded with DCP.

usage (under torchrun): dcp_script.py MODE FOLDER

The state is a function of the element's position, so that any number of ranks can check it.
"""
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from longhaul.dcp import Reader, Writer


def make_state(value):
    """Model and optimizer whose tensors count up from `value`, each as this rank's shards."""
    model = torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.GELU(), torch.nn.Linear(10, 3))
    model[2].to(torch.bfloat16)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01 * value)
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments, "step": int(value), "note": "text",
             "plain": torch.full((5,), float(value), dtype=torch.float64)}
    for number, tensor in enumerate(tensors_of(state)):
        whole = torch.arange(tensor.numel(), dtype=torch.float32) + 100 * number + value
        if hasattr(tensor, "placements"):
            from torch.distributed.tensor import distribute_tensor
            whole = whole.reshape(tensor.shape).to(tensor.dtype)
            tensor.to_local().copy_(distribute_tensor(whole, mesh, tensor.placements).to_local())
        else:
            tensor.copy_(whole.reshape(tensor.shape))
    return state


def tensors_of(node):
    if isinstance(node, dict):
        return [tensor for key in node for tensor in tensors_of(node[key])]
    return [node] if isinstance(node, torch.Tensor) else []


def check(got, want):
    pairs = list(zip(tensors_of(got), tensors_of(want)))
    assert len(pairs) > 10, len(pairs)
    for one, two in pairs:
        one, two = (each.to_local() if hasattr(each, "to_local") else each for each in (one, two))
        assert one.dtype == two.dtype and torch.equal(one, two), (one, two)
    for name in ("step", "note"):
        assert got[name] == want[name], (name, got[name])
    rates = [[group["lr"] for group in state["optimizer"]["param_groups"]] for state in (got, want)]
    assert rates[0] == rates[1], rates


def main():
    mode, folder = sys.argv[1:]
    dist.init_process_group("gloo")
    if mode == "save":
        dcp.save(make_state(1), storage_writer=Writer(folder, 5))
        dcp.save(make_state(2), storage_writer=Writer(folder, 10))
    elif mode == "save_async":
        dcp.async_save(make_state(2), storage_writer=Writer(folder, 10)).result()
    elif mode == "save_dcp":
        dcp.save(make_state(2), checkpoint_id=folder)
    else:
        state = make_state(3)
        if mode == "load":
            reader = Reader(folder)
            dcp.load(state, storage_reader=reader)
            assert reader.step == 10, reader.step
        else:
            dcp.load(state, checkpoint_id=folder)
        check(state, make_state(2))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
