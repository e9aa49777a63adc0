"""What a state becomes and comes back as, without a library."""

import json
import math
import unittest

import longhaul
from longhaul import LonghaulError, _state

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
        content = bytearray(value.numpy().tobytes() if kind == "torch" else value.tobytes())
        assert len(content) == _state.bytes_of(tensor.info)
        copies.append(_state.view(tensor.info, kind, content))
    return _state.unflatten(_state.pad(tree).rstrip(), copies)


class State(unittest.TestCase):
    def test_plain_values_keep_their_types(self):
        state = {"a": [1, 2.5, None, True, "x"], 3: ("t", {"deep": []}), "": {}}
        self.assertEqual(round_trip(state), state)
        self.assertIsInstance(round_trip(state)[3], tuple)

    def test_the_plan_does_not_change_when_a_number_grows(self):
        sizes = {len(_state.pad(_state.flatten({"step": 10 ** power})[1])) for power in range(15)}
        self.assertEqual(len(sizes), 1)

    def test_what_cannot_be_saved_is_named_by_its_place(self):
        with self.assertRaisesRegex(LonghaulError, "state/a/1: a set cannot be saved"):
            _state.flatten({"a": [1, {2}]})
        with self.assertRaisesRegex(LonghaulError, "a key must be a string or an integer"):
            _state.flatten({1.5: 1})

    @unittest.skipIf(numpy is None, "NumPy is not installed")
    def test_numpy_arrays_come_back(self):
        state = {"w": numpy.arange(6, dtype=numpy.float32).reshape(2, 3).T, "n": numpy.int64(7),
                 "empty": numpy.zeros((0, 4), dtype=numpy.uint8)}
        back = round_trip(state)
        numpy.testing.assert_array_equal(back["w"], state["w"])
        self.assertEqual(back["n"], 7)
        self.assertEqual(back["empty"].shape, (0, 4))
        with self.assertRaisesRegex(LonghaulError, "state/z: dtype complex64 cannot be saved"):
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


if __name__ == "__main__":
    unittest.main()
