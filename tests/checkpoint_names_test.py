"""Tensors have PyTorch's names: a state that PyTorch and this package save is one state to `diff`.

usage: checkpoint_names_test.py LONGHAUL LIBLONGHAUL [PYTHON]

Needs the PyTorch of PYTHON (/usr/bin/python3); skipped without.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

PYTHON = "/usr/bin/python3"
if len(sys.argv) > 3 and sys.argv[3].startswith("/"):
    PYTHON = sys.argv.pop(3)
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HAS_TORCH = subprocess.run(
    [PYTHON, "-c", "import importlib.util as u; u.find_spec('torch') or exit(1)"]).returncode == 0

STATE = r"""
import sys, torch, longhaul
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.GELU(), torch.nn.Linear(10, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad(); model(torch.randn(4, 6)).square().mean().backward(); optimizer.step()
state = {"model": dict(model.state_dict()), "optimizer": optimizer.state_dict(), "step": 3,
         "history": [torch.arange(3), torch.ones(2)]}

def tensors(node, place=""):
    if isinstance(node, torch.Tensor): return {place: node}
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(
        node, (list, tuple)) else ()
    found = {}
    for key, item in items: found.update(tensors(item, f"{place}.{key}" if place else str(key)))
    return found
"""
SAVE = STATE + r"""
if sys.argv[1] == "older":
    from longhaul import _state
    describe = _state._describe
    def older(*given):
        tensor = describe(*given)
        return tensor._replace(info=tensor.info._replace(name=tensor.old_name))
    _state._describe = older
longhaul.save("run", state, 3)
torch.save(state, "state.pt")
try:
    import torch.distributed.checkpoint as dcp
    dcp.save(state, checkpoint_id="dcp")
except Exception as error:  # 1.13 can not even import it under Python 3.11
    print("no DCP:", error)
print(len(tensors(state)))
"""
LOAD = STATE + r"""
expected = {name: value.clone() for name, value in tensors(state).items()}
whole = tensors(longhaul.load_checkpoint("run").state)
for tensor in tensors(state).values(): tensor.zero_()
filled = tensors(longhaul.load_checkpoint("run", into=state).state)
for loaded in (whole, filled):
    assert list(loaded) == list(expected), loaded.keys()
    for name, value in expected.items(): assert torch.equal(loaded[name], value), name
print("fine")
"""


@unittest.skipUnless(HAS_TORCH, f"{PYTHON} has no PyTorch: install python3-torch")
class Names(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="checkpoint-names-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def python(self, code, *words):
        done = subprocess.run(
            [PYTHON, "-B", "-W", "ignore", "-c", code, *words], cwd=self.folder, text=True,
            capture_output=True, timeout=100,
            env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "python"),
                 "LONGHAUL_LIBRARY": LIBRARY, "OMP_NUM_THREADS": "1"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout.split()[-1]

    def command(self, *words, code=0):
        done = subprocess.run([LONGHAUL, "checkpoint", *words], cwd=self.folder, text=True,
                              capture_output=True, timeout=60)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def names(self, path):
        return [one["name"] for one in json.loads(self.command("show", path, "--json"))["tensors"]]

    def test_one_state_saved_by_pytorch_and_by_us_is_equal(self):
        for way in ("newer", "older"):
            with self.subTest(way):
                shutil.rmtree(self.folder)
                os.mkdir(self.folder)
                count = int(self.python(SAVE, way))
                self.assertGreater(count, 10)
                said = self.command("diff", "state.pt", "run")
                self.assertIn(f"{count} of {count} tensors are equal, bit by bit; 0 values", said)
                self.assertIn("model.0.weight", self.names("run"))
                self.assertIn("optimizer.state.0.exp_avg", self.names("run"))
                self.assertIn("history.1", self.names("run"))
                self.assertEqual(sorted(self.names("run")), sorted(self.names("state.pt")))
                if os.path.isdir(os.path.join(self.folder, "dcp")):
                    said = self.command("diff", "dcp", "run")
                    self.assertIn(f"{count} of {count} tensors are equal, bit by bit; 0 v", said)
                self.assertEqual(self.python(LOAD), "fine")
                for name in ("model.safetensors", "back.pt"):
                    self.command("convert", "run", name)
                    self.assertEqual(self.names(name), self.names("run"))
                    self.assertIn("0 values differ", self.command("diff", name, "run"))


if __name__ == "__main__":
    LONGHAUL, LIBRARY = [os.path.abspath(path) for path in sys.argv[1:3]]
    del sys.argv[1:3]
    unittest.main()
