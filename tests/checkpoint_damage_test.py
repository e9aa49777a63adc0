"""Damaged checkpoints through the Python package: refused by name, or an older step with a warning.

usage: checkpoint_damage_test.py LIBLONGHAUL

Needs NumPy; skipped without.
"""
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import warnings

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "python"))
sys.dont_write_bytecode = True
try:
    import numpy
except ImportError:
    numpy = None
import longhaul  # noqa: E402
from longhaul import _state  # noqa: E402


def state_of(step):
    return {"model": {"weight": numpy.arange(3, dtype=numpy.float32) + step, "deep": [
                numpy.array([step], dtype=numpy.int64)]},
            "lr": 0.001 * step, "step": step, "seed": 2 ** 120 + step, "far": float("inf"),
            "betas": (0.9, None)}


def same(one, two):
    if type(one) is not type(two):
        return False
    if isinstance(one, dict):
        return list(one) == list(two) and all(same(one[key], two[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(two) and all(same(a, b) for a, b in zip(one, two))
    if isinstance(one, numpy.ndarray):
        return one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes()
    return one == two


@unittest.skipIf(numpy is None, "NumPy is not installed")
class Damage(unittest.TestCase):
    def setUp(self):
        self.fresh()

    def fresh(self):
        """Another folder, whose attempts begin with 0."""
        self.folder = tempfile.mkdtemp(prefix="checkpoint-damage-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def save(self, *steps):
        for step in steps:
            longhaul.save(self.folder, state_of(step), step)

    def path(self, step, name="rank-00000-of-00001.safetensors"):
        return os.path.join(self.folder, f"step-{step:09d}.e0", name)

    def flip(self, path, byte=-1):
        with open(path, "r+b") as file:
            content = bytearray(file.read())
            content[byte] ^= 1
            file.seek(0)
            file.write(content)

    def load(self, **options):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            saved = longhaul.load_checkpoint(self.folder, **options)
        return saved, [str(one.message) for one in said
                       if issubclass(one.category, longhaul.CheckpointWarning)]

    def assert_exact(self, saved, step):
        self.assertEqual(saved.step, step)
        self.assertTrue(same(saved.state, state_of(step)), saved.state)

    def test_nothing_there_is_none(self):
        self.assertIsNone(longhaul.load_checkpoint(os.path.join(self.folder, "absent")))
        self.assertIsNone(longhaul.load_checkpoint(self.folder))

    def test_every_value_comes_back(self):
        self.save(10)
        saved, said = self.load()
        self.assert_exact(saved, 10)
        self.assertEqual(said, [])
        self.assert_exact(longhaul.load_checkpoint(os.path.dirname(self.path(10))), 10)

    def test_a_damaged_step_gives_way_to_an_older_one_with_a_warning(self):
        damages = {
            "a flipped bit in the MANIFEST": lambda: self.flip(self.path(30, "MANIFEST"), 40),
            "an empty MANIFEST": lambda: os.truncate(self.path(30, "MANIFEST"), 0),
            "a missing shard": lambda: os.remove(self.path(30)),
            "a cut shard": lambda: os.truncate(self.path(30), 5000),
            "a longer shard": lambda: os.truncate(self.path(30), 20000),
            "a flipped bit in the header": lambda: self.flip(self.path(30), 20),
            "a flipped bit in a tensor": lambda: self.flip(self.path(30), 4096),
            "a flipped bit in the tree": lambda: self.flip(self.path(30), 4096 + 30),
        }
        for name, damage in damages.items():
            with self.subTest(name):
                self.fresh()
                self.save(10, 20, 30)
                damage()
                saved, said = self.load()
                self.assert_exact(saved, 20)
                self.assertEqual(len(said), 1, said)
                self.assertIn("step 30 is damaged", said[0])
                self.assertIn("step 20 was loaded in its place, 10 steps of training are lost",
                              said[0])
                into = state_of(1)
                saved, said = self.load(into=into)
                self.assert_exact(saved, 20)
                self.assertEqual(len(said), 1)

    def test_damage_without_a_good_step_raises(self):
        for damage in (lambda: self.flip(self.path(30, "MANIFEST"), 40),
                       lambda: os.remove(self.path(30)), lambda: self.flip(self.path(30))):
            self.fresh()
            self.save(20, 30)
            damage()
            os.remove(self.path(20))
            with self.assertRaises(longhaul.CheckpointDamaged) as raised:
                longhaul.load_checkpoint(self.folder)
            self.assertEqual([one.step for one in raised.exception.damaged], [30, 20])
            self.assertIn("step 30 is damaged", str(raised.exception))
            with self.assertRaises(longhaul.CheckpointDamaged):
                longhaul.load_checkpoint(os.path.dirname(self.path(30)))

    def test_what_was_never_committed_is_no_checkpoint(self):
        self.save(10, 20)
        os.remove(self.path(20, "MANIFEST"))
        saved, said = self.load()
        self.assert_exact(saved, 10)
        self.assertEqual(said, [])
        os.remove(self.path(10, "MANIFEST"))
        saved, said = self.load()
        self.assertIsNone(saved)
        self.assertIn("has the files of all ranks but no MANIFEST", said[0])

    def test_a_checkpoint_of_another_format_is_not_nothing(self):
        with open(os.path.join(self.folder, "model.safetensors"), "wb"):
            pass
        with self.assertRaisesRegex(longhaul.LonghaulError, "another format"):
            longhaul.load_checkpoint(self.folder)
        with self.assertRaises(longhaul.LonghaulError):
            longhaul.load_checkpoint(os.path.join(self.folder, "model.safetensors"))

    def test_a_folder_that_cannot_be_read_is_not_nothing(self):
        os.makedirs(self.path(10, "MANIFEST"))  # a folder where a file is expected
        with self.assertRaises(longhaul.LonghaulError):
            longhaul.load_checkpoint(self.folder)

    def test_a_missing_library_raises(self):
        code = ("import longhaul\n"
                "try: longhaul.load_checkpoint('absent')\n"
                "except longhaul.LibraryNotFound as error: print(error)\n")
        for named in ("/absent/liblonghaul.so", __file__, ""):
            done = subprocess.run(
                [sys.executable, "-B", "-c", code], text=True, capture_output=True,
                env={"PYTHONPATH": os.path.join(ROOT, "python"), "LONGHAUL_LIBRARY": named})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("set LONGHAUL_LIBRARY to the path of liblonghaul.so", done.stdout)

    def test_a_step_that_is_saved_again_is_the_new_one(self):
        longhaul.save(self.folder, state_of(1), 10)
        longhaul.save(self.folder, state_of(2), 10)
        saved, _ = self.load()
        self.assertTrue(same(saved.state, state_of(2)))


@unittest.skipIf(numpy is None, "NumPy is not installed")
class EveryBit(unittest.TestCase):
    """Every bit of every file, flipped in turn; every length that it can be cut to."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="checkpoint-damage-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        step, _state._TREE_STEP = _state._TREE_STEP, 64  # less padding, of which there is enough
        self.addCleanup(setattr, _state, "_TREE_STEP", step)
        self.expected = state_of(30)
        longhaul.save(self.folder, self.expected, 30)
        step = os.path.join(self.folder, "step-000000030.e0")
        self.files = [os.path.join(step, name) for name in sorted(os.listdir(step))]
        self.assertEqual(len(self.files), 2)
        self.tried = self.refused = 0

    def check(self, what, **options):
        """The rule: refused by the documented exception, or exactly what was saved."""
        self.tried += 1
        try:
            saved = longhaul.load_checkpoint(self.folder, **options)
        except longhaul.CheckpointDamaged:
            self.refused += 1
            return
        self.assertTrue(saved is not None and saved.step == 30 and
                        same(saved.state, self.expected), f"{what}: {saved}")

    def test_flipped_is_refused(self):
        for path in self.files:
            with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as content:
                for bit in range(len(content) * 8):
                    content[bit // 8] ^= 1 << bit % 8
                    self.check(f"bit {bit} of {path}")
                    content[bit // 8] ^= 1 << bit % 8
        self.assertGreater(self.tried, 40_000)
        self.assertEqual(self.refused, self.tried)
        self.check("unchanged")
        self.assertEqual(self.refused, self.tried - 1)

    def test_flipped_is_refused_where_a_state_is_filled_in_place(self):
        into = state_of(1)
        for path in self.files:
            with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as content:
                for bit in range(len(content) * 8 - 7, 0, -61):
                    content[bit // 8] ^= 1 << bit % 8
                    self.check(f"bit {bit} of {path}", into=into)
                    content[bit // 8] ^= 1 << bit % 8
        self.assertEqual(self.refused, self.tried)

    def test_cut_or_longer_is_refused(self):
        for path in self.files:
            with open(path, "rb") as file:
                content = file.read()
            for size in range(len(content) - 1, -1, -1):
                os.truncate(path, size)
                self.check(f"{path} cut to {size}")
            for added in (b"\0", b" ", b"\n", b"x" * 100):
                with open(path, "wb") as file:
                    file.write(content + added)
                self.check(f"{path} made longer by {added}")
            with open(path, "wb") as file:
                file.write(content)
        self.assertEqual(self.refused, self.tried)
        self.check("unchanged")


if __name__ == "__main__":
    os.environ["LONGHAUL_LIBRARY"] = os.path.abspath(sys.argv.pop(1))
    unittest.main()
