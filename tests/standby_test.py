"""Two controllers with one event log in PostgreSQL: the second takes over and training goes on.

usage: standby_test.py LONGHAUL LONGHAUL_TRAINER

Each case runs the built-in trainer on two agents. The losses are compared bit for bit with those
of a run without faults.
"""
import signal
import sys
import unittest

import postgres_server
from standby_cluster import STEPS, Cluster, steps_of


@unittest.skipIf(postgres_server.missing(), postgres_server.missing() or "")
class Standby(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = postgres_server.Server()
        cls.addClassCleanup(cls.server.close)
        calm = Cluster(sys.argv_programs, cls.server, "calm")
        try:
            calm.leader(0)
            calm.begin()
            cls.losses = steps_of(calm.history())
        finally:
            calm.close()
        assert [step for step, _ in cls.losses] == list(range(1, STEPS + 1)), cls.losses

    def setUp(self):
        database = self.id().rsplit(".", maxsplit=1)[1]
        self.cluster = Cluster(sys.argv_programs, self.server, database)
        self.addCleanup(self.cluster.close)

    def check_end(self, terms, every_step=True):
        """The job ends as one that nothing has happened to."""
        history = self.cluster.history()
        states = [each["state"]["state"] for each in history if "state" in each]
        self.assertEqual(states[-1], "succeeded", states)
        self.assertEqual({each["attempt"]["attempt"] for each in history if "attempt" in each},
                         {1}, "a worker was started again")
        steps = steps_of(history)
        if every_step:
            self.assertEqual(steps, self.losses)
        else:  # in a long outage agents condense their reports of steps
            self.assertLessEqual(set(steps), set(self.losses))
            self.assertEqual(steps[-1], self.losses[-1])
        self.assertEqual(self.cluster.term(), terms)

    def test_takes_over_twice_from_a_leader_that_is_killed(self):
        cluster = self.cluster
        first = cluster.leader(0)
        second = cluster.standby(1)
        cluster.begin()
        first.kill()
        cluster.await_leader(1)
        cluster.await_more_steps()
        cluster.standby(0)
        second.kill()
        cluster.await_leader(0)
        self.check_end(terms=3)

    def test_a_leader_that_was_paused_ends_without_acting(self):
        cluster = self.cluster
        first = cluster.leader(0)
        cluster.standby(1)
        cluster.begin()
        first.send_signal(signal.SIGSTOP)
        cluster.await_leader(1)
        cluster.await_more_steps()
        first.send_signal(signal.SIGCONT)
        self.assertEqual(first.wait(timeout=30), 1)
        self.assertIn("this controller ends", cluster.output("controller-0"))
        self.check_end(terms=2)

    def test_a_leader_that_is_cut_off_from_the_database_ends(self):
        cluster = self.cluster
        proxy = postgres_server.Proxy(self.server.socket)
        self.addCleanup(proxy.close)
        first = cluster.leader(0, cluster.address(proxy))
        cluster.standby(1)
        cluster.begin()
        proxy.cut()
        self.assertEqual(first.wait(timeout=30), 1)
        self.assertIn("the lease could not be renewed", cluster.output("controller-0"))
        cluster.await_leader(1)
        self.check_end(terms=2)

    def test_nothing_happens_when_the_one_that_stands_by_is_killed(self):
        cluster = self.cluster
        cluster.leader(0)
        second = cluster.standby(1)
        cluster.begin()
        second.kill()
        self.check_end(terms=1)

    def test_a_crash_of_the_database_loses_nothing(self):
        cluster = self.cluster
        cluster.leader(0)
        cluster.standby(1)
        cluster.begin()
        self.server.stop(signal.SIGQUIT)
        self.server.start()
        cluster.await_more_steps()
        self.check_end(terms=cluster.term(), every_step=False)

    def test_refuses_what_would_not_work(self):
        cluster = self.cluster
        cluster.leader(0)
        cluster.secret("other", "6" * 64)
        other = cluster.controller(1, "stands by", token="other")
        self.assertEqual(other.wait(timeout=30), 1)
        self.assertIn("belongs to a controller with other secrets", cluster.output("controller-1"))
        for address, code, reason in (
                ("postgresql://u:hidden@localhost/x", 2, "contains a password"),
                ("sqlite:events.db", 2, "expected postgresql://"),
                ("postgresql:///absent?host=" + self.server.folder, 1, "does not exist")):
            wrong = cluster.controller(1, "stands by", address=address)
            self.assertEqual(wrong.wait(timeout=30), code, address)
            self.assertIn(reason, cluster.output("controller-1"))
        self.assertNotIn("hidden", cluster.output("controller-1"))


if __name__ == "__main__":
    sys.argv_programs = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
