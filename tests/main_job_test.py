"""A whole run of a tiny job: with a killed worker and a killed node it ends as it does without.

usage: main_job_test.py LONGHAUL LONGHAUL_TRAINER
"""
import os
import struct
import sys
import unittest

import local_run

# Enough that the node is killed long before the run ends, also on a busy machine.
STEPS = 60
BATCH = 8
RANKS = 4
# Right after a snapshot (every 10 steps), so that steps which were done must be done again.
FAULTS = "kill worker 1 at step 11; kill agent 2 at step 22"
FILES = ["events.jsonl", "metrics.csv", "report.md", "report.json", "report.html",
         "loss.svg", "timeline.svg"]


def sample_records(folder):
    """Every (attempt, step, rank, sample ids) of a run, by the format of corpus/sample_record.h."""
    for name in os.listdir(folder):
        with open(f"{folder}/{name}", "rb") as file:
            data = file.read()
        at = 0
        while at + 32 <= len(data):
            magic, rank, attempt, step, count = struct.unpack_from("<4sIQQQ", data, at)
            assert magic == b"LHSR", f"{name}: byte {at} starts no record"
            end = at + 32 + 8 * count + 8
            if end > len(data):
                break  # cut short by a kill
            yield attempt, step, rank, struct.unpack_from(f"<{count}Q", data, at + 32)
            at = end


class History:
    """What a run trained on: all of it, and what has stayed after the restarts."""

    def __init__(self, lab, name):
        restored = {notification["attempt"]["attempt"]: notification["attempt"]["restore"]["step"]
                    for notification in lab.notifications(name) if notification["type"] == "attempt"}
        self.attempts = sorted(restored)
        self.restored = restored
        self.records = list(sample_records(f"{lab.folder}/runs/{name}/samples"))
        self.committed = {}  # step -> rank -> lists of samples
        for attempt, step, rank, samples in self.records:
            taken_back = any(later > attempt and restored[later] < step for later in restored)
            if not taken_back:
                self.committed.setdefault(step, {}).setdefault(rank, []).append(samples)

    def order(self):
        """The committed samples by position."""
        return [sample for step in sorted(self.committed) for rank in sorted(self.committed[step])
                for samples in self.committed[step][rank] for sample in samples]


class MainJob(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = local_run.Lab(sys.argv_programs)
        cls.addClassCleanup(cls.lab.close)
        cls.folder = cls.lab.folder
        steps = ("--set", f"train.steps={STEPS}")
        cls.plain = cls.lab.run("plain", *steps)
        cls.faulty = cls.lab.run("faulty", *steps, "--inject", FAULTS)

    def test_succeeds_and_leaves_its_files(self):
        for name, report in (("plain", self.plain), ("faulty", self.faulty)):
            self.assertEqual(report["state"], "succeeded")
            self.assertEqual(report["steps"], STEPS)
            for file in FILES:
                self.assertGreater(os.path.getsize(f"{self.folder}/runs/{name}/{file}"), 0, file)

    def test_reports_both_faults_with_their_stages(self):
        self.assertEqual(self.plain["faults"], [])
        self.assertEqual([fault["class_name"] for fault in self.faulty["faults"]],
                         ["process", "node"])
        for fault in self.faulty["faults"]:
            self.assertGreater(fault["recovery_seconds"], 0)
            self.assertEqual(fault["stages"][-1]["name"], "first new step done")

    def test_ends_with_the_same_weights(self):
        self.assertEqual(self.faulty["results"]["weights_hash"],
                         self.plain["results"]["weights_hash"])

    def test_counts_each_sample_once(self):
        self.assertEqual(self.plain["samples_committed"], STEPS * BATCH)
        self.assertEqual(self.faulty["samples_committed"], STEPS * BATCH)

    def test_trains_on_each_position_once(self):
        for name in ("plain", "faulty"):
            history = History(self.lab, name)
            self.assertEqual(sorted(history.committed), list(range(1, STEPS + 1)), name)
            for step, ranks in history.committed.items():
                self.assertEqual(sorted(ranks), list(range(RANKS)), f"{name}, step {step}")
                for rank, records in ranks.items():
                    self.assertEqual([len(samples) for samples in records], [BATCH // RANKS],
                                     f"{name}, step {step}, rank {rank}")

    def test_uses_each_sample_once_in_a_pass_over_the_data(self):
        for name in ("plain", "faulty"):
            order = History(self.lab, name).order()
            count = max(order) + 1
            self.assertGreater(len(order), 2 * count, "too few passes to say anything")
            for first in range(0, len(order), count):
                used = order[first:first + count]
                self.assertEqual(len(set(used)), len(used), f"{name}, the pass at {first}")

    def test_uses_samples_in_the_order_of_the_run_without_faults(self):
        plain, faulty = History(self.lab, "plain"), History(self.lab, "faulty")
        self.assertEqual(plain.attempts, [1])
        self.assertEqual(faulty.attempts, [1, 2, 3])
        self.assertEqual(len(plain.records), STEPS * RANKS)
        self.assertGreater(len(faulty.records), STEPS * RANKS, "nothing was done twice")
        self.assertEqual(faulty.order(), plain.order())

    def test_accounts_for_all_time(self):
        # The run is a few seconds, so two log writes weigh more than in the report's own 0.1 %.
        for report in (self.plain, self.faulty):
            ledger = report["ledger"]
            self.assertLess(abs(ledger["sum_seconds"] - ledger["measured_seconds"]), 0.1)

    def test_leaves_no_process(self):
        self.assertEqual(self.lab.processes(), [])


if __name__ == "__main__":
    sys.argv_programs = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
