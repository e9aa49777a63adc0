"""Sharded states saved by some processes and loaded by another number of them, without an agent.

usage: python_sharded_test.py LIBLONGHAUL [PYTHON]

Needs the PyTorch of PYTHON (/usr/bin/python3); skipped without. DTensor and FSDP where it has them.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

PYTHON = "/usr/bin/python3"
if len(sys.argv) > 2 and sys.argv[2].startswith("/"):
    PYTHON = sys.argv.pop(2)
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HAS_TORCH = subprocess.run(
    [PYTHON, "-c", "import importlib.util as u; u.find_spec('torch') or exit(1)"]).returncode == 0
LIMIT_S = 100

# One rank: argv is mode, rank, world, folder, a file for the rendezvous, step to expect or save.
WORKER = r"""
import sys, torch, longhaul
import torch.distributed as dist
mode, rank, world, folder, store, step = sys.argv[1], *map(int, sys.argv[2:4]), *sys.argv[4:6], int(sys.argv[6])
dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=world)
whole = {"rows": torch.arange(70.).reshape(10, 7) + step, "columns": -torch.arange(35.).reshape(5, 7) - step,
         "few": torch.arange(2, dtype=torch.int64) + step, "plain": torch.full((3,), 2.5 + step)}

def cut(name, dim):
    value, each = whole[name], -(-whole[name].shape[dim] // world)
    begin = min(rank * each, value.shape[dim]); end = min(begin + each, value.shape[dim])
    offset = [0] * value.dim(); offset[dim] = begin
    return longhaul.Part(value.narrow(dim, begin, end - begin).contiguous(), value.shape, offset)

def state(lr):
    made = {"rows": cut("rows", 0), "deep": [{"columns": cut("columns", 1)}], "few": cut("few", 0),
            "plain": whole["plain"].clone(), "lr": lr, "inf": float("inf")}
    try:
        from torch.distributed.tensor import Shard, Replicate, distribute_tensor
        from torch.distributed.device_mesh import init_device_mesh
    except ImportError:
        return made
    mesh = init_device_mesh("cpu", (world,))
    made["dtensor"] = distribute_tensor(whole["columns"], mesh, [Shard(0)])
    made["replica"] = distribute_tensor(whole["rows"], mesh, [Replicate()])
    return made

def tensors(node):
    if isinstance(node, dict): return [t for item in node.values() for t in tensors(item)]
    if isinstance(node, list): return [t for item in node for t in tensors(item)]
    if isinstance(node, longhaul.Part): return [node.local]
    return [node.to_local() if hasattr(node, "to_local") else node] if isinstance(node, torch.Tensor) else []

if mode == "save":
    longhaul.save(folder, state(0.25), step)
elif mode == "fail":
    bad = state(0.25)
    if rank == world - 1: bad["set"] = {1}
    try:
        longhaul.save(folder, bad, step)
    except longhaul.LonghaulError as error:
        assert "a set cannot be saved" in str(error), error
        assert rank == world - 1 or str(error).startswith(f"rank {world - 1}: "), error
    else:
        raise AssertionError("it was saved")
elif mode == "damaged":  # rank 1's box of a newer step: only that rank reads it
    import warnings
    into, expected = state(0.0), tensors(state(0.0))
    try:
        longhaul.load_checkpoint(folder, into=into)
        alone = "loaded"
    except longhaul.CheckpointDamaged as error:
        assert "load with together=True" in str(error), error
        alone = "raised"
    assert alone == ("raised" if rank == 1 else "loaded"), alone
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        saved = longhaul.load_checkpoint(folder, into=into, together=True)
    assert saved.step == step, saved.step
    for one, two in zip(tensors(saved.state), expected): assert torch.equal(one, two), (rank, one, two)
    reported = [str(one.message) for one in said if one.category is longhaul.CheckpointWarning]
    assert len(reported) == 1 and "step 2 is damaged" in reported[0] and "one step of training is lost" in reported[0], reported
else:
    into, expected = state(0.0), tensors(state(0.0))
    for tensor in tensors(into): tensor.zero_()
    saved = longhaul.load_checkpoint(folder, into=into)
    assert saved.step == step, saved.step
    got = tensors(saved.state)
    assert len(got) == len(expected) >= 4
    for one, two in zip(got, expected): assert torch.equal(one, two), (rank, one, two)
    assert saved.state["lr"] == 0.25 and saved.state["inf"] == float("inf")
    if rank == 0:
        all_of_it = longhaul.load_checkpoint(folder).state
        for name in ("rows", "few", "plain"): assert torch.equal(all_of_it[name], whole[name]), name
        assert torch.equal(all_of_it["deep"][0]["columns"], whole["columns"])
dist.barrier()
print("fine")
"""

FSDP = r"""
import sys, torch, longhaul
import torch.distributed as dist
mode, rank, world, folder, store, step = sys.argv[1], *map(int, sys.argv[2:4]), *sys.argv[4:6], int(sys.argv[6])
try:
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.device_mesh import init_device_mesh
except Exception:  # 1.13 can not even be asked under Python 3.11
    print("skipped"); sys.exit(0)
dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=world)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.GELU(), torch.nn.Linear(10, 3))
fully_shard(model, mesh=init_device_mesh("cpu", (world,)))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
generator = torch.Generator().manual_seed(7)
data = torch.randn(64, 12, 6, generator=generator)

def train(first, last):
    for at in range(first, last):
        optimizer.zero_grad()
        loss = model(data[at]).square().mean()  # every rank the same rows: the mean is world-free
        loss.backward(); optimizer.step()
    return loss.item()

if step > 1:
    model_state, optimizer_state = get_state_dict(model, optimizer)
    saved = longhaul.load_checkpoint(folder, into={"model": model_state, "optimizer": optimizer_state})
    set_state_dict(model, optimizer, model_state_dict=saved.state["model"],
                   optim_state_dict=saved.state["optimizer"])
    assert saved.step == step - 1, saved.step
loss = train((step - 1) * 4, step * 4)
model_state, optimizer_state = get_state_dict(model, optimizer)
longhaul.save(folder, {"model": model_state, "optimizer": optimizer_state}, step)
if rank == 0: print("loss", repr(loss))
dist.barrier()
"""


def all_ranks(script, mode, world, folder, step):
    with tempfile.TemporaryDirectory(prefix="python-sharded-") as place:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(
            [os.path.join(ROOT, "python"), os.environ.get("PYTHONPATH", "")]),
            "LONGHAUL_LIBRARY": LIBRARY, "OMP_NUM_THREADS": "1"}
        ranks = [subprocess.Popen(
            [PYTHON, "-B", "-W", "ignore", "-c", script, mode, str(rank), str(world), folder,
             os.path.join(place, "store"), str(step)], text=True, env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for rank in range(world)]
        try:
            said = [rank.communicate(timeout=LIMIT_S)[0] for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
        return [rank.returncode for rank in ranks], said


@unittest.skipUnless(HAS_TORCH, f"{PYTHON} has no PyTorch: install python3-torch")
class Sharded(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="python-sharded-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def ranks(self, mode, world, step):
        codes, said = all_ranks(WORKER, mode, world, self.folder, step)
        self.assertEqual(codes, [0] * world, "\n".join(said))

    def test_saved_by_two_loaded_by_one_and_three(self):
        self.ranks("save", 2, 1)
        self.ranks("load", 1, 1)
        self.ranks("fail", 2, 2)
        self.ranks("load", 3, 1)

    def test_all_ranks_take_the_same_older_step_when_one_finds_damage(self):
        self.ranks("save", 2, 1)
        self.ranks("save", 2, 2)
        newest = max(name for name in os.listdir(self.folder) if "step-000000002" in name)
        path = os.path.join(self.folder, newest, "rank-00001-of-00002.safetensors")
        with open(path, "r+b") as file:
            file.seek(4096 + 3)
            byte = file.read(1)[0]
            file.seek(4096 + 3)
            file.write(bytes([byte ^ 8]))
        self.ranks("damaged", 2, 1)

    def test_fsdp_goes_on_in_another_world(self):
        losses = []
        for worlds in ((1, 1, 1), (2, 1, 3)):
            folder = os.path.join(self.folder, str(worlds))
            for step, world in enumerate(worlds, 1):
                codes, said = all_ranks(FSDP, "", world, folder, step)
                self.assertEqual(codes, [0] * world, "\n".join(said))
                if "skipped" in said[0]:
                    self.skipTest("this PyTorch has no fully_shard")
                losses.append(float(said[0].split("loss")[1]))
        for alone, sharded in zip(losses[:3], losses[3:]):
            self.assertAlmostEqual(alone, sharded, places=5)


class Examples(unittest.TestCase):
    """examples/ are read by people: they run as they stand."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="python-examples-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def example(self, name, *words, runner=()):
        environment = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "python"),
                       "LONGHAUL_LIBRARY": LIBRARY, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [PYTHON, "-B", "-W", "ignore", *runner, os.path.join(ROOT, "examples", name), *words],
            text=True, env=environment, cwd=self.folder, timeout=LIMIT_S, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_numpy_goes_on_to_the_same_bits(self):
        if subprocess.run([PYTHON, "-c", "import numpy"], capture_output=True).returncode != 0:
            self.skipTest("no NumPy")
        self.example("numpy_checkpoint.py", "a", "--steps", "13")
        on = self.example("numpy_checkpoint.py", "a", "--steps", "30")
        through = self.example("numpy_checkpoint.py", "b", "--steps", "30")
        self.assertIn("first step 11,", on)
        self.assertEqual(on.split("weights")[1], through.split("weights")[1])

    def test_fully_shard_goes_on_with_more_processes(self):
        if subprocess.run([PYTHON, "-c", "from torch.distributed.fsdp import fully_shard"],
                          capture_output=True).returncode != 0:
            self.skipTest("this PyTorch has no fully_shard")

        def run(folder, processes, steps):
            return self.example("fsdp_checkpoint.py", folder, "--steps", str(steps), runner=(
                "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)))

        run("a", 2, 10)
        on, through = run("a", 3, 20), run("b", 2, 20)
        self.assertIn("first step 11,", on)
        self.assertAlmostEqual(float(on.split("loss")[1]), float(through.split("loss")[1]), 5)


if __name__ == "__main__":
    LIBRARY = os.path.abspath(sys.argv.pop(1))
    unittest.main()
