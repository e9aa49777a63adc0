"""bench/kubernetes with the real kube-apiserver, on 20 nodes: whether everything works.

  bench_smoke_test.py FOLDER

FOLDER has the built programs kubernetes_load and kubernetes_bind_rate. The place of Longhaul's
scheduler is taken by a stock scheduler under the name longhaul, because the subject is the
benchmark. Skipped, with a line, where tools/kubernetes_environment has not built the programs.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from api_server import ROOT, programs_or_skip

BENCH = ROOT / "bench" / "kubernetes" / "scheduling.py"
PROGRAMS = None
STAND_IN = """#!/bin/sh
[ "$1 $2 $3" = "kube schedule --kubeconfig" ] || exit 0
cat >"{folder}/profile.json" <<END
{{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
 "leaderElection": {{"leaderElect": false}}, "clientConnection": {{"kubeconfig": "$4", "qps": 5000,
 "burst": 5000}}, "profiles": [{{"schedulerName": "longhaul"}}]}}
END
exec {program} --config="{folder}/profile.json" --authentication-skip-lookup --secure-port=0
"""


class Smoke(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.binaries = programs_or_skip("kube-apiserver", "etcd", "kube-scheduler")

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "temporary").mkdir()
        self.data = set(self.data_folders())

    def data_folders(self):
        return pathlib.Path("/dev/shm").glob("longhaul-etcd-*")

    def start(self, *words):
        return subprocess.Popen(
            [BENCH, "--smoke", "--programs", PROGRAMS, *words], text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(self.folder / "temporary")})

    def assert_nothing_is_left(self):
        self.assertEqual(list((self.folder / "temporary").iterdir()), [])
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                command = (process / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            self.assertNotIn(str(self.folder / "temporary"), command)

    def test_measures_all_cases_and_schedulers(self):
        stand_in = self.folder / "longhaul"
        stand_in.write_text(STAND_IN.format(folder=self.folder,
                                            program=self.binaries / "kube-scheduler"))
        stand_in.chmod(0o755)
        bench = self.start("--json", "--schedulers", "tuned,longhaul", "--longhaul", stand_in)
        output, errors = bench.communicate(timeout=280)
        self.assertEqual(bench.returncode, 0, errors)
        cases = json.loads(output)["cases"]
        self.assertEqual(list(cases), ["backlog", "large", "gangs", "arrivals"])
        for name, case in cases.items():
            self.assertEqual([each["scheduler"] for each in case["samples"]],
                             ["ceiling", "tuned", "longhaul", "ceiling"])
            for goal in case["goals"]:
                self.assertGreater(goal["value"], 0, (name, goal))
        self.assert_nothing_is_left()

    def test_signal_leaves_nothing(self):
        bench = self.start("--cases", "backlog", "--schedulers", "tuned")
        for line in bench.stderr:
            if "ceiling" in line:  # a scheduler runs now or soon
                bench.send_signal(signal.SIGTERM)
                break
        _, errors = bench.communicate(timeout=60)
        self.assertEqual(bench.returncode, 128 + signal.SIGTERM, errors)
        self.assertIn("interrupted: its processes and data were removed", errors)
        self.assert_nothing_is_left()
        # Folders of other programs may have come or gone in the meantime, but none of this one.
        left = {path for path in set(self.data_folders()) - self.data
                if path.name.split("-")[2] == str(bench.pid)}
        self.assertEqual(left, set())


if __name__ == "__main__":
    PROGRAMS = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=sys.argv[:1])
