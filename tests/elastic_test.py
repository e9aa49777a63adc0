"""An elastic job on four agents: it shrinks for others, grows again, and trains the same.

usage: elastic_test.py LONGHAUL LONGHAUL_TRAINER
"""
import sys
import unittest

import queues_test
import local_run
import main_job_test

CONFIG = """
priorities: {low: -100, high: 100}
scheduling: {elastic_period: 1s}
"""
STEPS = 400
BATCH = 15  # no size but 1 and 3 divides it
# Sums over one to four replicas add the same numbers in another order, so the losses differ by
# rounding (1e-5 in the first step). At the default learning rate the model learns this small text by
# heart, and training then magnifies the rounding by up to five orders of magnitude. At this rate the
# differences were below 2e-7.
LEARNING_RATE = 3e-4
TOLERANCE = 1e-5


class History:
    """What a run has trained on, from what its ranks wrote down."""

    def __init__(self, folder):
        self.records = list(main_job_test.sample_records(folder))
        first = {}  # attempt -> its first step: it continued after the one before
        for attempt, step, _, _ in self.records:
            first[attempt] = min(step, first.get(attempt, step))
        self.committed = {}  # step -> rank -> samples
        for attempt, step, rank, samples in self.records:
            if any(later > attempt and first[later] <= step for later in first):
                continue  # taken back
            self.committed.setdefault(step, {})[rank] = samples

    def order(self):
        return [sample for step in sorted(self.committed) for rank in sorted(self.committed[step])
                for sample in self.committed[step][rank]]

    def worlds(self):
        """The numbers of ranks, in the order that they were there."""
        worlds = [len(ranks) for _, ranks in sorted(self.committed.items())]
        return [world for i, world in enumerate(worlds) if i == 0 or worlds[i - 1] != world]


class ElasticTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = queues_test.Cluster(sys.argv_programs, CONFIG, agents=4, slots=1)
        cls.addClassCleanup(cls.cluster.close)

    def train(self, name, nodes, **bounds):
        self.cluster.submit(name, {
            "model": {"layers": 1, "hidden": 64, "heads": 2, "sequence": 64},
            "data": {"include": [f"{self.cluster.folder}/data/*.txt"], "held_out": 0.1},
            "train": {"steps": STEPS, "global_batch": BATCH, "warmup_steps": 5,
                      "learning_rate": LEARNING_RATE,
                      "evaluate_every": 0, "evaluate_sequences": 8},
            "resources": {"nodes": nodes, "processes_per_node": 1, **bounds}})

    def history(self, job):
        return History(f"{job['job']['run_directory']}/samples")

    def test_shrinks_for_others_grows_again_and_trains_the_same(self):
        cluster = self.cluster
        self.train("elastic", 3, minimum_nodes=1, maximum_nodes=4)
        local_run.await_that(lambda: cluster.job("elastic")["step"] > 10, "steps")
        self.assertEqual(len(cluster.job("elastic")["gang"]), 4)
        cluster.waiter("urgent", nodes=2, processes=1, priority="high")
        cluster.await_state("urgent", "running")
        shrunk = cluster.job("elastic")
        self.assertEqual(len(shrunk["gang"]), 2)
        self.assertIn("2 of 1 to 4; before 4", cluster.call("status", "elastic"))
        cluster.finish("urgent")
        local_run.await_that(lambda: cluster.job("elastic")["resizes"] >= 2, "growth")
        grown = cluster.job("elastic")["step"]
        local_run.await_that(lambda: cluster.job("elastic")["step"] > grown + 10, "steps of all")
        self.assertIn("its bounds are 1 to 4",
                      cluster.call("jobs", "scale", "elastic", "5", code=2))
        cluster.call("jobs", "scale", "elastic", "3")
        local_run.await_that(lambda: cluster.job("elastic")["resizes"] >= 3, "3 nodes")
        self.assertEqual(len(cluster.job("elastic")["gang"]), 3)
        self.assertIn("3 of 1 to 4; scaled to 3 at most; before 4, 2, 4",
                      cluster.call("status", "elastic"))
        self.assertNotIn(cluster.job("elastic")["state"], queues_test.OVER)
        elastic = cluster.await_state("elastic", "succeeded")
        self.assertEqual([size["nodes"] for size in elastic["sizes"]], [4, 2, 4, 3])
        self.assertEqual((elastic["step"], elastic["preemptions"], elastic["restarts"]),
                         (STEPS, 0, 0))
        self.assertEqual(elastic["faults"], [])
        self.check_ledger(elastic)

        self.train("plain", 3)
        plain = cluster.await_state("plain", "succeeded")
        self.assertEqual(plain["resizes"], 0)
        changed, straight = self.history(elastic), self.history(plain)
        self.assertEqual(changed.worlds(), [4, 2, 4, 3])
        self.assertEqual(straight.worlds(), [3])
        self.assertEqual(len(straight.order()), STEPS * BATCH)
        self.assertEqual(changed.order(), straight.order())
        for loss in ("loss", "validation_loss"):
            self.assertLess(abs(elastic[loss] - plain[loss]), TOLERANCE * plain[loss], loss)

    def check_ledger(self, job):
        """Rank seconds are the ranks that there were, times how long."""
        expected = 0
        ends = [int(size["at_ns"]) for size in job["sizes"][1:]] + [int(job["ended_at_ns"])]
        for size, end in zip(job["sizes"], ends):
            expected += size["nodes"] * (end - int(size["at_ns"])) * 1e-9
        queued = (int(job["sizes"][0]["at_ns"]) - int(job["submitted_at_ns"])) * 1e-9
        expected += 3 * queued
        self.assertLess(abs(job["ledger"]["rank_seconds"] - expected), 0.001 * expected + 0.02)

    def test_bounds_that_cannot_be_are_reported(self):
        job = {"command": ["true"]}
        for resources, says in (
                ({"nodes": 2, "minimum_nodes": 3}, "3 is above the 2 of resources.nodes"),
                ({"nodes": 2, "maximum_nodes": 1}, "1 is below the 2 of resources.nodes"),
                ({"minimum_nodes": 1}, "needs resources.nodes beside it")):
            said = self.cluster.submit(
                "bad", {**job, "resources": {"processes_per_node": 1, **resources}}, code=2)
            self.assertIn(says, said)


if __name__ == "__main__":
    sys.argv_programs = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
