"""The script that makes the README's picture still makes one, from a run of its own.

usage: timeline_picture_test.py LONGHAUL LONGHAUL_TRAINER
"""
import os
import pathlib
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

PROJECT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT / "tools"))
import draw_timeline  # pylint: disable=wrong-import-position

SVG = "{http://www.w3.org/2000/svg}"
WANTED = {"node-1", "node-2", "fault 1", "fault 2", "rendezvous", "restore", "steps done again"}


class TimelinePictureTest(unittest.TestCase):
    def check(self, path):
        """A picture with both nodes and both faults, each of which a recovery follows."""
        root = ElementTree.parse(path).getroot()
        self.assertEqual(root.tag, f"{SVG}svg")
        self.assertGreater(float(root.get("width")), 500)
        texts = {text.text for text in root.iter(f"{SVG}text")}
        self.assertLessEqual(WANTED, texts)
        self.assertTrue(any("SIGKILL" in text for text in texts), texts)
        self.assertTrue(any("node-2 was lost" in text for text in texts), texts)
        self.assertGreater(sum(1 for _ in root.iter(f"{SVG}rect")), 20)

    def test_the_script_makes_the_picture_of_a_new_run(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "timeline.svg")
            os.environ["LONGHAUL_TRAINER"] = sys.programs[1]
            draw_timeline.draw(sys.programs[0], path, steps=60)
            self.check(path)

    def test_the_picture_of_the_readme_is_of_such_a_run(self):
        self.check(PROJECT / "docs/timeline.svg")


if __name__ == "__main__":
    sys.programs = [os.path.abspath(path) for path in (sys.argv.pop(1), sys.argv.pop(1))]
    unittest.main()
