"""What PyTorch makes of checkpoints of every format that hold one state, and that state of its own.

usage: python3 reshard_torch.py FOLDER

FOLDER holds a folder a state, each with the same tensors as own/ (shards of some layout's ranks),
model.safetensors, sharded/ (with an index), model.pt and dcp/. All must agree bit for bit. Beside them
it writes theirs.pt, strided.pt (transposed tensors and shared storages), and with the packages for it
theirs.safetensors and theirs-dcp/. Exit code 77: no PyTorch here. Driven by
src/checkpoint/formats/reshard_disk_test.cc.
"""
import glob
import json
import os
import struct
import sys

try:
    import torch
except ImportError:
    sys.exit(77)
try:
    import torch.distributed.checkpoint as dcp
    dcp.save, dcp.load, dcp.FileSystemReader  # 1.13 has none of them
except (ImportError, AttributeError, ValueError):
    dcp = None  # 1.13 can't be asked under Python 3.11
try:
    import safetensors.torch
except ImportError:
    safetensors = None

DTYPES = {"BF16": torch.bfloat16, "F32": torch.float32, "U8": torch.uint8}


def check(holds, what):
    if not holds:
        raise AssertionError(what)


def read_strictly(path):
    """Tensors and metadata by the published format, nothing forgiven."""
    with open(path, "rb") as file:
        content = file.read()
    length, = struct.unpack_from("<Q", content)
    check(length <= 100_000_000 and 8 + length <= len(content) and content[8:9] == b"{", path)
    header = json.loads(content[8:8 + length].decode())
    metadata = header.pop("__metadata__", {})
    check(all(isinstance(text, str) for text in metadata.values()), f"{path}: metadata")
    data, tensors, end = content[8 + length:], {}, 0
    for name, info in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, stop = info["data_offsets"]
        check(begin == end and set(info) == {"dtype", "shape", "data_offsets"}, f"{path}: {name}")
        end = stop
        flat = torch.frombuffer(bytearray(data[begin:stop]), dtype=DTYPES[info["dtype"]]) \
            if stop > begin else torch.empty(0, dtype=DTYPES[info["dtype"]])
        tensors[name] = flat.reshape(info["shape"])
    check(end == len(data), f"{path}: bytes behind the last tensor")
    return tensors, metadata


def read_file(path):
    tensors, metadata = read_strictly(path)
    if safetensors is not None:
        theirs = safetensors.torch.load_file(path)
        check(same(theirs, tensors), f"{path}: the safetensors package reads something else")
        with safetensors.safe_open(path, "pt") as opened:
            check((opened.metadata() or {}) == metadata, f"{path}: metadata")
    return tensors, metadata


def bits(tensor):
    tensor = tensor.detach().contiguous().reshape(-1)
    return tensor.view({2: torch.int16, 4: torch.int32, 1: torch.uint8}[tensor.element_size()])


def same(one, two):
    return set(one) == set(two) and all(
        one[name].dtype == two[name].dtype and one[name].shape == two[name].shape and
        torch.equal(bits(one[name]), bits(two[name])) for name in one)


def read_own(folder):
    """The whole tensors of the shards of all ranks."""
    whole, seen = {}, {}
    for path in sorted(glob.glob(f"{folder}/step-*/*.safetensors")):
        tensors, metadata = read_file(path)
        for name, tensor in tensors.items():
            part = json.loads(metadata.get(f"part:{name}", "null"))
            if part is None:
                part = {"of": name, "shape": list(tensor.shape), "offset": [0] * tensor.dim()}
            of = whole.setdefault(part["of"], torch.zeros(part["shape"], dtype=tensor.dtype))
            hits = seen.setdefault(part["of"], torch.zeros(part["shape"], dtype=torch.bool))
            where = tuple(slice(offset, offset + extent)
                          for offset, extent in zip(part["offset"], tensor.shape))
            of[where] = tensor
            hits[where] = True
    check(all(bool(hits.all()) for hits in seen.values()), f"{folder}: elements in no shard")
    return whole


def read_sharded(folder):
    with open(f"{folder}/model.safetensors.index.json") as file:
        index = json.load(file)
    tensors = {}
    for name in sorted(set(index["weight_map"].values())):
        tensors.update(read_file(f"{folder}/{name}")[0])
    check(set(tensors) == set(index["weight_map"]), f"{folder}: the index names other tensors")
    return tensors


def read_dcp(folder, like):
    state = {name: torch.zeros_like(tensor) for name, tensor in like.items()}
    dcp.load(state, checkpoint_id=folder)
    return state


def strided(state):
    """The same values where tensors are views of others' storages, and not row-major."""
    made = {}
    for number, (name, tensor) in enumerate(sorted(state.items())):
        if number % 3 == 0 and tensor.dim() == 2:
            made[name] = tensor.t().contiguous().t()
        elif number % 3 == 1 and tensor.dim() >= 1:
            wide = torch.zeros((tensor.shape[0] + 3,) + tuple(tensor.shape[1:]), dtype=tensor.dtype)
            wide[2:-1] = tensor
            made[name] = wide[2:-1]
        else:
            made[name] = tensor
    return made


def look(folder):
    state = read_own(f"{folder}/own")
    check(same(read_file(f"{folder}/model.safetensors")[0], state), f"{folder}: model.safetensors")
    check(same(read_sharded(f"{folder}/sharded"), state), f"{folder}: sharded")
    check(same(torch.load(f"{folder}/model.pt"), state), f"{folder}: model.pt")
    if dcp is not None:
        check(same(read_dcp(f"{folder}/dcp", state), state), f"{folder}: dcp")
        dcp.save(state, checkpoint_id=f"{folder}/theirs-dcp")
    torch.save(state, f"{folder}/theirs.pt")
    torch.save(strided(state), f"{folder}/strided.pt")
    if safetensors is not None:
        safetensors.torch.save_file(state, f"{folder}/theirs.safetensors")


def main():
    folders = sorted(glob.glob(f"{sys.argv[1]}/*/own"))
    check(folders, f"{sys.argv[1]} holds no states")
    for own in folders:
        look(os.path.dirname(own))
    print(f"PyTorch {torch.__version__}: {len(folders)} states, "
          f"{'with' if dcp else 'without'} DCP, {'with' if safetensors else 'without'} safetensors")


if __name__ == "__main__":
    main()
