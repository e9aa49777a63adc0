"""README.md stays a landing page: short, with a picture and the two commands to begin with."""

import pathlib
import unittest

README = pathlib.Path(__file__).resolve().parent.parent / "README.md"
MOST_WORDS = 1_000


class Readme(unittest.TestCase):
    def test_has_at_most_a_thousand_words(self):
        words = len(README.read_text(encoding="utf-8").split())
        self.assertLessEqual(words, MOST_WORDS, "move details to docs/ or bench/README.md")

    def test_shows_a_picture_and_the_first_commands(self):
        text = README.read_text(encoding="utf-8")
        self.assertIn("](docs/timeline.svg)", text)
        self.assertIn("\n./longhaul run examples/headers-gpt.yaml ", text)
        self.assertIn("\n./test ", text)


if __name__ == "__main__":
    unittest.main()
