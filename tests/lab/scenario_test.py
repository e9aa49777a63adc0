"""Scenarios on hosts with networks of their own agree with the simulator in all but times.

usage: scenario_test.py LONGHAUL LONGHAUL_WORKER_LIBRARY

Needs root, `ip`, `tc`, `unshare`, `nsenter` and NumPy; skipped without.
"""
import os
import pathlib
import sys
import unittest

import network

try:
    import scenario
    NO_NUMPY = ""
except ImportError as error:
    NO_NUMPY = str(error)
MISSING = NO_NUMPY or network.why_not()
SCENARIOS = pathlib.Path(__file__).resolve().parent / "scenarios"


def fault(at, node="", **known):
    return {"at": at, "node": node, **known}


@unittest.skipIf(NO_NUMPY, NO_NUMPY)
class Reports(unittest.TestCase):
    def test_nodes_are_compared_by_the_order_of_their_use(self):
        def report(*gangs):
            return {"state": "succeeded", "restarts": 1, "last_step": 9, "gangs": gangs,
                    "recorded": [], "violations": []}
        one = report(["node-1", "node-2"], ["node-1", "node-3"])
        self.assertEqual(scenario.differences(one, report(["b", "a"], ["b", "c"])), [])
        self.assertEqual(scenario.differences(one, report(["b", "a"], ["b", "a"])),
                         ["nodes of the attempts: simulated [[1, 2], [1, 3]], measured "
                          "[[1, 2], [1, 2]]"])

    def test_a_violation_is_a_difference(self):
        good = {"state": "succeeded", "restarts": 0, "last_step": 9, "gangs": [], "recorded": [],
                "violations": []}
        self.assertEqual(scenario.differences(good, {**good, "violations": ["1 lost"]}),
                         ["violations: simulated [], measured ['1 lost']"])

    def test_a_cause_belongs_to_the_newest_fault_of_its_target(self):
        planned = [{"node": 0, "rank": 1}, {"node": 2, "rank": 0}, {"node": 0, "rank": 0}]
        faults = [fault(1.0, "a"), fault(2.0, "b"), fault(3.0)]  # a worker, a node, the controller
        def cause(at, node, rank):
            return {"detected_at_ns": int(at * 1e9), "node": node, "rank": rank,
                    "class_name": "c", "what": f"{node}{rank}"}
        recorded = [cause(3.5, "b", -1), cause(3.5, "a", 1), cause(3.5, "c", -1), cause(0.5, "a", 1)]
        self.assertEqual(scenario.causes_of(planned, faults, recorded),
                         [["c: a1"], ["c: b-1"], ["c: c-1"]])

    def test_faults_without_time_between_them_happen_together(self):
        one, two, three = {"at_step": 4}, {"after_s": 0.0}, {"after_s": 0.1}
        self.assertEqual(scenario.at_the_same_moment([one, two, three]), [[one, two], [three]])


@unittest.skipIf(MISSING, MISSING)
class Laboratory(unittest.TestCase):
    def agrees(self, name):
        simulated = scenario.simulate(sys.longhaul, SCENARIOS / f"{name}.yaml")
        measured = scenario.measure(sys.longhaul, sys.library, simulated["scenario"])
        self.assertEqual(scenario.differences(simulated, measured), [], measured)
        return measured

    def test_a_killed_worker(self):
        measured = self.agrees("worker-killed")
        self.assertEqual(measured["restarts"], 1)
        self.assertGreater(measured["faults"][0]["new_step_s"], 0)

    def test_the_controller_is_killed_while_workers_restart(self):
        measured = self.agrees("controller-killed-in-restart")
        self.assertEqual([fault["fault"] for fault in measured["faults"]],
                         ["kill_worker", "kill_controller"])

    def test_a_host_behind_a_cut_link_is_replaced(self):
        measured = self.agrees("cut-long")
        self.assertEqual(measured["restarts"], 1)
        self.assertNotEqual(measured["gangs"][0], measured["gangs"][1])


if __name__ == "__main__":
    sys.longhaul, sys.library = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
    unittest.main()
