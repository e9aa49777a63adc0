"""check_words.py finds retired phrases, and leaves whole other words alone."""

import unittest

import check_words


class CheckWords(unittest.TestCase):
    def phrases(self, text):
        return [(line, phrase) for line, phrase, _ in check_words.findings(text)]

    def test_a_phrase_is_found_with_its_line_also_over_a_line_break(self):
        self.assertEqual(self.phrases("one\ntwo of\nlate three"), [(2, "of late")])

    def test_the_beginning_of_another_word_is_no_finding(self):
        self.assertEqual(self.phrases("for every later step, of later ones"), [])

    def test_each_pattern_finds_an_example(self):
        for text in ["It goes on with that.", "the job goes on.", "the Brain", "nodes are had",
                     "priced by its like", "the agent is told to stop", "a worker at the door",
                     "the vault", "a warm parent", "a poisoned state"]:
            self.assertEqual(len(self.phrases(text)), 1, text)


if __name__ == "__main__":
    unittest.main()
