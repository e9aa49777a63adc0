"""The proof of bench/recovery/composed_faults.py, small, and that its checker finds what it should.

usage: composed_faults_test.py LONGHAUL LONGHAUL_WORKER_LIBRARY
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
PYTHON = "/usr/bin/python3"
SCRIPTS = ROOT / "bench/recovery"
sys.path.insert(0, str(SCRIPTS))
import fault_records  # noqa: E402

SAMPLES, BATCH, STEPS = 8, 4, 4  # two epochs


def records_of_a_run():
    """Two workers without faults: two samples each in each step."""
    order = [3, 1, 7, 0, 2, 6, 5, 4, 6, 7, 0, 1, 2, 3, 4, 5]
    return [(1, rank, step, 2, order[(step - 1) * BATCH + 2 * rank:][:2])
            for step in range(1, STEPS + 1) for rank in range(2)]


class FaultRecords(unittest.TestCase):
    def checked(self, records):
        found = fault_records.check(fault_records.History(records), STEPS, SAMPLES, BATCH)
        return found["lost"], found["repeated"], found["incomplete_steps"]

    def test_a_run_without_faults_loses_and_repeats_nothing(self):
        self.assertEqual(self.checked(records_of_a_run()), (0, 0, 0))

    def test_steps_that_are_done_again_count_once(self):
        again = [(2, *record[1:]) for record in records_of_a_run() if record[2] >= 3]
        history = fault_records.History(records_of_a_run() + again)
        self.assertEqual(self.checked(records_of_a_run() + again), (0, 0, 0))
        self.assertEqual((history.attempts, history.done_again), (2, 2))

    def test_another_number_of_workers_may_do_a_step_again(self):
        alone = [(2, 0, 4, 1, [2, 3, 4, 5])]
        history = fault_records.History(records_of_a_run() + alone)
        self.assertEqual(self.checked(records_of_a_run() + alone), (0, 0, 0))
        self.assertEqual(history.sizes(), [2, 1])

    def test_a_missing_step_loses_its_samples(self):
        self.assertEqual(self.checked([one for one in records_of_a_run() if one[2] != 2]), (4, 0, 0))

    def test_a_step_of_which_a_worker_is_missing_is_incomplete(self):
        self.assertEqual(self.checked(records_of_a_run()[:-1]), (2, 0, 1))

    def test_an_attempt_that_was_not_done_again_does_not_hide_behind_an_earlier_one(self):
        partly = [(2, 0, 3, 2, [6, 7])]  # worker 1 never recorded it, and nobody did it again
        self.assertEqual(self.checked(records_of_a_run() + partly), (2, 0, 1))

    def test_a_sample_that_is_read_for_another_one_is_lost_and_repeated(self):
        records = records_of_a_run()
        records[0] = (1, 0, 1, 2, [3, 7])
        self.assertEqual(self.checked(records), (1, 1, 0))

    def test_a_step_beyond_the_last_one_is_a_repetition(self):
        self.assertEqual(self.checked(records_of_a_run() + [(1, 0, 5, 1, [0, 1, 2, 3])]), (0, 4, 0))

    def test_a_line_that_a_kill_cut_short_does_not_count(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "2.0.77").write_text("1 1 3 4;\n2 1 5")
            records, ends = fault_records.read(folder)
            self.assertEqual((records, ends), ([(2, 0, 1, 1, [3, 4])], {}))


class ComposedFaults(unittest.TestCase):
    def test_a_few_faults_and_resizes_lose_nothing(self):
        done = subprocess.run(
            [PYTHON, "-B", str(SCRIPTS / "composed_faults.py"), "--longhaul", sys.longhaul, "--runs",
             "1", "--faults", "12", "--trainer-faults", "0", "--step-time", "0.005", "--json"],
            capture_output=True, text=True, env={**os.environ, "LONGHAUL_LIBRARY": sys.library})
        self.assertEqual(done.returncode, 0, done.stderr)
        run = json.loads(done.stdout)["elastic"][0]
        self.assertGreaterEqual(sum(run["faults"].values()), 12)
        self.assertEqual((run["lost"], run["repeated"], run["bits_equal"]), (0, 0, True))
        self.assertGreater(run["attempts"], 1)


if __name__ == "__main__":
    sys.longhaul, sys.library = map(os.path.abspath, sys.argv[1:3])
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
