"""Leader election at the real kube-apiserver: candidates that are killed, paused and ended.

  leader_test.py LEADER

LEADER is the built program kubernetes_leader. All processes print times of one monotonic clock, so
that the test compares when each of them led.
"""

import json
import pathlib
import signal
import subprocess
import sys
import threading
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from api_server import ApiServer, folder_for, programs_or_skip

LEADER = None
LEASE_S, RENEW_S, RETRY_S = 3, 2, 0.2
# The longest wait until another one leads: it reads the record, sees it unchanged for the duration
# of the lease, and takes it with its next attempt. The machine may be slow.
TAKES_S = LEASE_S + 3 * 1.2 * RETRY_S + 2


class Candidate:
    """A process, with the lines that it has printed: (time, word, rest)."""

    def __init__(self, kubeconfig, lease, identity):
        self.identity = identity
        self.lines = []
        self.process = subprocess.Popen(
            [LEADER, kubeconfig, lease, identity, str(LEASE_S), str(int(RENEW_S * 1000)),
             str(int(RETRY_S * 1000))],
            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            at, word, *rest = line.split(maxsplit=2)
            self.lines.append((float(at), word, " ".join(rest).strip()))

    def words(self, *of):
        return [word for _, word, _ in list(self.lines) if word in (of or ("leads", "stops"))]

    def spans(self):
        """When it led: from each report until the last renewal ends, or the report of the end."""
        spans = []
        for at, word, rest in list(self.lines):
            if word == "leads":
                spans.append([at, at])
            elif word == "until" and spans:
                spans[-1][1] = float(rest)
            elif word == "stops":
                spans[-1][1] = min(spans[-1][1], at)
        return spans

    def leads(self):
        spans = self.spans()
        return bool(spans) and spans[-1][1] > time.monotonic()

    def end(self, how=signal.SIGKILL):
        self.process.send_signal(how)
        self.process.wait(timeout=20)
        self.reader.join(timeout=20)
        self.process.stdout.close()


class Leader(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        binaries = programs_or_skip("kube-apiserver", "etcd")
        cls.server = cls.enterClassContext(ApiServer(binaries, folder_for(cls)))

    def setUp(self):
        self.name = self._testMethodName.replace("_", "-")
        self.candidates = []

    def tearDown(self):
        for each in self.candidates:
            if each.process.poll() is None:
                each.end()
        # Whatever has happened: never two at the same time.
        spans = sorted((*span, each.identity) for each in self.candidates for span in each.spans())
        for (_, end, one), (start, _, other) in zip(spans, spans[1:]):
            self.assertLessEqual(end, start, f"{one} and {other} led at the same time: {spans}")
        # The server refuses nothing. On a slow machine a request may take too long.
        refused = [line for each in self.candidates for line in each.lines if "HTTP" in line[2]]
        self.assertEqual(refused, [])

    def begin(self, *identities):
        for identity in identities:
            self.candidates.append(Candidate(self.server.kubeconfig, self.name, identity))
        return self.candidates[-len(identities):]

    def until(self, what, seconds=TAKES_S):
        deadline = time.monotonic() + seconds
        while not what():
            self.assertLess(time.monotonic(), deadline,
                            [(each.identity, each.lines) for each in self.candidates])
            time.sleep(0.01)

    def lease(self):
        path = f"/apis/coordination.k8s.io/v1/namespaces/default/leases/{self.name}"
        return json.loads(self.server.get(path)[1])

    def first_leader(self, *identities):
        """Begins these, and returns the one that leads and the others."""
        candidates = self.begin(*identities)
        # The lease is created first.
        self.until(lambda: any(each.leads() for each in candidates), TAKES_S + 2)
        leader = next(each for each in candidates if each.leads())
        return leader, [each for each in candidates if each is not leader]

    def test_another_one_leads_after_a_kill(self):
        leader, (other,) = self.first_leader("one", "two")
        self.assertEqual(self.lease()["spec"]["holderIdentity"], leader.identity)
        self.assertEqual(self.lease()["spec"]["leaseTransitions"], 0)
        time.sleep(LEASE_S)  # it renews: nobody else leads
        self.assertTrue(leader.leads())
        self.assertEqual(other.words(), [])
        leader.end()
        killed = time.monotonic()
        self.until(other.leads)
        print(f"{time.monotonic() - killed:.2f} s after a kill, with a lease of {LEASE_S} s")
        self.assertEqual(self.lease()["spec"]["holderIdentity"], other.identity)
        self.assertEqual(self.lease()["spec"]["leaseTransitions"], 1)

    def test_a_released_lease_is_taken_at_once(self):
        leader, others = self.first_leader("one", "two", "three")
        leader.end(signal.SIGTERM)
        ended = time.monotonic()
        self.assertEqual(leader.words("leads", "stops", "released"),
                         ["leads", "stops", "released"])
        self.until(lambda: any(each.leads() for each in others), LEASE_S / 2)
        print(f"{time.monotonic() - ended:.2f} s after a release")

    def test_a_paused_leader_leads_no_longer(self):
        leader, (other,) = self.first_leader("one", "two")
        leader.process.send_signal(signal.SIGSTOP)
        self.until(other.leads)
        leader.process.send_signal(signal.SIGCONT)
        self.until(lambda: leader.words() == ["leads", "stops"])
        time.sleep(3 * RETRY_S)  # it finds the other one's record
        self.assertTrue(other.leads())
        self.assertEqual(leader.words(), ["leads", "stops"])

    def test_the_leader_stays_when_the_lease_is_deleted(self):
        leader, (other,) = self.first_leader("one", "two")
        uid = self.lease()["metadata"]["uid"]
        status, _ = self.server.send(
            "DELETE", f"/apis/coordination.k8s.io/v1/namespaces/default/leases/{self.name}")
        self.assertEqual(status, 200)
        time.sleep(LEASE_S + 1)
        self.assertEqual(leader.words(), ["leads"])
        self.assertEqual(other.words(), [])
        self.assertNotEqual(self.lease()["metadata"]["uid"], uid)
        self.assertEqual(self.lease()["spec"]["holderIdentity"], leader.identity)


if __name__ == "__main__":
    LEADER = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=sys.argv[:1])
