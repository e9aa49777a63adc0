"""What a state becomes and comes back as, without a library."""

import gc
import json
import math
import pathlib
import resource
import sys
import tempfile
import unittest
import unittest.mock

import longhaul
from longhaul import LonghaulError, TensorInfo, _objects, _state

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None


def round_trip(state):
    tensors, tree = _state.flatten(state)
    copies = []
    for tensor, kind in zip(tensors, _state.kinds(tree, len(tensors))):
        value = tensor.value.contiguous() if kind == "torch" else tensor.value
        saved = value.numpy().tobytes() if kind == "torch" else value.tobytes()
        assert len(saved) == _state.bytes_of(tensor.info)
        content = _state.fresh(len(saved))
        content[:] = saved
        copies.append(_state.view(tensor.info, kind, content))
    return _state.unflatten(_state.pad(tree).rstrip(), copies)


class WithoutGoodTorch(unittest.TestCase):
    """A saved tensor of PyTorch, restored where PyTorch is absent, broken or too old."""

    def error_with(self, source):
        """The message where `source` is PyTorch's module; None: there is no PyTorch."""
        with tempfile.TemporaryDirectory() as folder, \
                unittest.mock.patch.dict(sys.modules), \
                unittest.mock.patch.object(sys, "path", [folder]):
            for name in [name for name in sys.modules if name.split(".")[0] == "torch"]:
                del sys.modules[name]
            if source is not None:
                pathlib.Path(folder, "torch.py").write_text(source)
            info = TensorInfo("model.weight", "BF16", (2,))
            with self.assertRaises(LonghaulError) as caught:
                _state.view(info, "torch", _state.fresh(4))
        self.assertNotIn("\n", str(caught.exception))
        return str(caught.exception)

    def test_the_error_names_the_tensor_the_reason_and_the_remedy(self):
        install = f"run {sys.executable} -m pip install --upgrade torch"
        for source, reason in (
                (None, f"which {sys.executable} does not have: {install}"),
                ("import torch._C", "No module named 'torch._C'.*; it may be built for another "
                 f"Python: {install} --force-reinstall"),
                ("raise ImportError('undefined symbol: x\\nmore')",
                 rf"cannot load \(undefined symbol: x\); .*{install} --force-reinstall"),
                ("__version__ = '1.9.0'", f"PyTorch 1.9.0 is too old, expected at least 1.10: {install}"),
                ("__version__ = '1.13.1'\nfrombuffer = None",
                 f"PyTorch 1.13.1 is too old for its dtype bfloat16: {install}")):
            with self.subTest(source=source):
                self.assertRegex(self.error_with(source),
                                 "^model.weight is a tensor of PyTorch, .*" + reason)


class State(unittest.TestCase):
    def test_plain_values_keep_their_types(self):
        state = {"a": [1, 2.5, None, True, "x"], 3: ("t", {"deep": []}), "": {}}
        self.assertEqual(round_trip(state), state)
        self.assertIsInstance(round_trip(state)[3], tuple)

    def test_the_plan_does_not_change_when_a_number_grows(self):
        sizes = {len(_state.pad(_state.flatten({"step": 10 ** power})[1])) for power in range(15)}
        self.assertEqual(len(sizes), 1)

    def test_integers_of_any_size_keep_their_value(self):
        state = {"small": [2 ** 63 - 1, -2 ** 63], "large": [2 ** 63, -2 ** 63 - 1, 7 ** 200]}
        self.assertEqual(round_trip(state), state)
        nodes = json.loads(_state.flatten(state)[1])
        self.assertEqual(nodes["d"][1][1]["l"][0], {"i": str(2 ** 63)})
        self.assertEqual(_state.with_values({"large": [0, 0, 0]}, nodes)["large"], state["large"])

    def test_what_a_reader_could_not_take_is_refused(self):
        deep = []
        for _ in range(_state._MAX_DEPTH + 1):
            deep = [deep]
        for state, why in ((deep, "nested deeper than 64 levels"), ({"a": 10 ** 600}, "600 digits"),
                           ({"a": "\ud800"}, "not valid Unicode"), ({2 ** 70: 1}, "beyond 64 bits"),
                           ({"\udc80": 1}, "not valid Unicode")):
            with self.assertRaisesRegex(LonghaulError, why):
                _state.flatten(state)

    def test_what_cannot_be_saved_is_named_by_its_place(self):
        with self.assertRaisesRegex(LonghaulError, r"state\.a\.1: a set cannot be saved"):
            _state.flatten({"a": [1, {2}]})
        with self.assertRaisesRegex(LonghaulError, "a key must be a string or an integer"):
            _state.flatten({1.5: 1})

    @unittest.skipIf(numpy is None, "NumPy is not installed")
    def test_names_are_joined_by_dots_and_never_used_twice(self):
        one = numpy.ones(1)
        tensors, _ = _state.flatten({"model": {"0.weight": one, 3: [one]}, "a/b": one})
        self.assertEqual([tensor.info.name for tensor in tensors],
                         ["model.0.weight", "model.3.0", "a/b"])
        self.assertEqual(_state.flatten(one)[0][0].info.name, "tensor")
        with self.assertRaisesRegex(LonghaulError, "another tensor is named 'a.b' too"):
            _state.flatten({"a": {"b": one}, "a.b": one})
        older = [tensor.info._replace(name=name) for tensor, name in
                 zip(tensors, ["model/0.weight", "model/3/0", "a/b"])]
        self.assertEqual([tensor.info for tensor in _state.as_saved(tensors, older)], older)
        self.assertEqual(_state.as_saved(tensors, [tensor.info for tensor in tensors]), tensors)

    @unittest.skipIf(numpy is None, "NumPy is not installed")
    def test_numpy_arrays_come_back(self):
        state = {"w": numpy.arange(6, dtype=numpy.float32).reshape(2, 3).T, "n": numpy.int64(7),
                 "empty": numpy.zeros((0, 4), dtype=numpy.uint8)}
        back = round_trip(state)
        numpy.testing.assert_array_equal(back["w"], state["w"])
        self.assertEqual(back["n"], 7)
        self.assertEqual(back["empty"].shape, (0, 4))
        with self.assertRaisesRegex(LonghaulError, r"state\.z: dtype complex64 cannot be saved"):
            _state.flatten({"z": numpy.zeros(1, dtype=numpy.complex64)})

    @unittest.skipIf(numpy is None, "NumPy is not installed")
    def test_a_box_is_described_where_it_lies_and_values_come_back_around_it(self):
        part = longhaul.Part(numpy.ones((2, 3), dtype=numpy.float32), (5, 3), (3, 0))
        state = {"w": part, "lr": math.inf, "n": [1, "x"]}
        tensors, tree = _state.flatten(state)
        self.assertEqual(tensors[0].info.part, ((5, 3), (3, 0)))
        into = {"w": part, "lr": 0.5, "n": [0, ""], "new": 3}
        self.assertEqual(_state.with_values(into, json.loads(tree)), {**state, "new": 3})
        with self.assertRaisesRegex(LonghaulError, "does not lie in a tensor of"):
            longhaul.Part(numpy.ones((3, 3)), (5, 3), (3, 0))

    @unittest.skipIf(numpy is None, "NumPy is not installed")
    def test_tensors_with_nan_or_infinities_are_named(self):
        tensors, _ = _state.flatten({"good": numpy.ones(3), "bad": numpy.array([1, numpy.nan]),
                                     "far": numpy.array([numpy.inf], dtype=numpy.float16),
                                     "whole": numpy.array([7])})
        self.assertEqual(_state.not_finite(tensors), ["bad", "far"])

    @unittest.skipIf(torch is None, "PyTorch is not installed")
    def test_optimizer_state_comes_back(self):
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        back = round_trip({"model": dict(model.state_dict()), "optimizer": optimizer.state_dict()})
        self.assertTrue(torch.equal(back["model"]["weight"], model.weight))
        other = torch.optim.AdamW(torch.nn.Linear(3, 2).parameters())
        other.load_state_dict(back["optimizer"])
        for index, moments in optimizer.state_dict()["state"].items():
            for name, value in moments.items():
                self.assertTrue(torch.equal(torch.as_tensor(value), torch.as_tensor(
                    other.state_dict()["state"][index][name])), name)


class FreshTest(unittest.TestCase):
    def test_large_memory_has_no_pages_until_it_is_written(self):
        count = 64 << 20
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        memory = _state.fresh(count)
        made = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        self.assertEqual(len(memory), count)
        self.assertLess(made * resource.getpagesize(), count / 4)

    @unittest.skipUnless(torch, "needs PyTorch")
    def test_a_tensor_keeps_its_memory_and_can_be_written(self):
        for count in (1, 1 << 12, 1 << 18, 1 << 22):
            info = _state.TensorInfo("a", "F32", (count,))
            memory = _state.fresh(_state.bytes_of(info))
            tensor = _state.view(info, "torch", memory)
            del memory
            gc.collect()
            self.assertEqual(tensor.fill_(2).sum().item(), 2 * count)


@unittest.skipIf(torch is None, "no PyTorch")
class Objects(unittest.TestCase):
    def make(self, seed):
        torch.manual_seed(seed)
        model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1 * seed)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        return {"model": model, "more": [optimizer, (scheduler, seed)]}

    def step(self, state):
        state["model"](torch.ones(4, 3)).sum().backward()
        state["more"][0].step()
        state["more"][1][0].step()

    def test_their_states_are_saved_and_loaded_before_the_first_step(self):
        saved, fresh = self.make(1), self.make(2)
        self.step(saved)
        captured = _objects.capture(saved)
        self.assertEqual(captured["more"][1][1], 1)
        restored = _objects.put_back(fresh, round_trip(captured))
        self.assertIsInstance(restored["model"], torch.nn.Module)
        self.assertEqual(restored["more"][1][1], 1)
        for one, two in zip(saved["model"].state_dict().values(),
                            fresh["model"].state_dict().values()):
            self.assertTrue(torch.equal(one, two))
        moments = [[value["exp_avg"] for value in each["more"][0].state.values()]
                   for each in (saved, fresh)]
        self.assertEqual(len(moments[0]), 4)
        for one, two in zip(*moments):
            self.assertTrue(torch.equal(one, two))
        self.assertEqual(fresh["more"][1][0].last_epoch, 1)
        self.assertEqual(fresh["more"][0].param_groups[0]["lr"], saved["more"][0].param_groups[0]["lr"])

    def test_an_optimizers_state_has_the_names_of_its_modules_parameters(self):
        state = self.make(1)
        self.step(state)
        names = [tensor.info.name for tensor in _state.flatten(_objects.capture(state))[0]]
        if _objects._functions() is not None:
            self.assertIn("more.0.state.0.weight.exp_avg", names)
        else:
            self.assertIn("more.0.state.0.exp_avg", names)

    def test_a_state_without_objects_is_not_copied(self):
        state = {"a": [1, torch.ones(2)], "b": "text"}
        self.assertIs(_objects.capture(state), state)
        self.assertIs(_objects.put_back(state, {"a": 2}).get("b"), None)


if __name__ == "__main__":
    unittest.main()
