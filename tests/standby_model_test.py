"""The model of controllers that stand by for each other, searched exhaustively by spin.

usage: standby_model_test.py

Two controllers, two events and three terms. Each mutation removes one check of the protocol, and the
search has to find what goes wrong without it.
"""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

MODEL = os.path.join(os.path.dirname(__file__),
                     "../src/service/controller/standby/model/standby.pml")
MISSING = [name for name in ("spin", "gcc") if shutil.which(name) is None]


@unittest.skipIf(MISSING, f"{' and '.join(MISSING)} not installed (Debian: apt install spin gcc)")
class Model(unittest.TestCase):
    def search(self, *definitions):
        """What the search prints: whole, or until the first error."""
        with tempfile.TemporaryDirectory(prefix="standby-model-") as folder:
            shutil.copy(MODEL, f"{folder}/standby.pml")
            options = ["-DTERMS=3", "-DEVENTS=2", *definitions]
            for command in (["spin", *options, "-a", "standby.pml"],
                            ["gcc", "-O2", "-w", "-DSAFETY", "-o", "pan", "pan.c"]):
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            # -E: a state in which all wait is no error, because processes may stand still.
            return subprocess.run(["./pan", "-m100000", "-E"], cwd=folder, capture_output=True,
                                  text=True, timeout=500).stdout

    def test_holds_its_properties_in_every_state(self):
        output = self.search()
        self.assertIn("errors: 0", output)
        self.assertNotIn("max search depth too small", output)
        self.assertNotIn("Search not completed", output)
        states = int(re.search(r"(\d+) states, stored", output).group(1))
        self.assertGreater(states, 100_000)
        # Everything but the ends of the endless processes is reached.
        unreached = re.findall(r"standby.pml:\d+, state \d+, (.*)", output)
        self.assertEqual(set(unreached), {'"-end-"'})

    def test_finds_an_append_without_the_check_of_the_term(self):
        self.assertIn("assertion violated", self.search("-DWITHOUT_TERM_CHECK"))

    def test_finds_an_agent_that_accepts_a_lower_term(self):
        self.assertIn("assertion violated (t>=accepted)", self.search("-DWITHOUT_AGENT_CHECK"))


if __name__ == "__main__":
    unittest.main()
