"""The metrics, the alerts and the dashboard with Debian's Prometheus.

usage: prometheus_test.py LONGHAUL LONGHAUL-TRAINER

Prometheus scrapes the controller of `longhaul run`, in which a worker is killed. Skipped without
the programs prometheus and promtool.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, TESTS)
import free_ports  # noqa: E402
import local_run  # noqa: E402

ROOT = os.path.dirname(TESTS)
RULES = f"{ROOT}/deploy/prometheus"
STEPS = 1_000_000  # more than are looked at
# What has no value in a healthy run of two minutes.
EMPTY = ("longhaul_node_losses_total[1d]) > 0", "longhaul_job_validation_loss",
         "longhaul_job_committed_step")


def expressions(dashboard):
    """(the title of the panel, the query with all jobs) of each query."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"].replace("$job", ".*")


class Prometheus(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        missing = [name for name in ("prometheus", "promtool") if not shutil.which(name)]
        if missing:
            raise unittest.SkipTest(f"needs {' and '.join(missing)}: apt-get install prometheus")

    def promtool(self, *words, **more):
        done = subprocess.run(["promtool", *words], capture_output=True, text=True, timeout=60,
                              **more)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_alerts_fire_where_they_should(self):
        self.promtool("check", "rules", f"{RULES}/alerts.yaml")
        self.promtool("test", "rules", f"{RULES}/alerts_test.yaml")

    def test_the_configuration_is_valid(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("prometheus.yaml", "alerts.yaml"):
                shutil.copy(f"{RULES}/{name}", folder)
            open(f"{folder}/longhaul.token", "w").close()
            self.promtool("check", "config", f"{folder}/prometheus.yaml")

    def test_a_run_with_a_fault_is_scraped(self):
        lab = local_run.Lab(sys.argv_programs)
        self.addCleanup(lab.close)
        with open(f"{lab.folder}/output", "w") as output:
            run = lab.start("seen", "--set", f"train.steps={STEPS}", output=output)
        self.addCleanup(run.wait, 60)
        self.addCleanup(run.terminate)
        local_run.await_that(lambda: lab.last_step("seen") > 0, "a step")
        with open(f"{lab.folder}/runs/seen/cluster/endpoint.json") as file:
            self.rest = json.load(file)["rest"]
        with open(f"{lab.folder}/runs/seen/cluster/token") as file:
            self.token = file.read().strip()
        self.check_text()
        self.start_prometheus(lab.folder)
        job = json.loads(self.get("/v1/jobs/tiny-1", "application/json")[1])
        os.kill(int(job["worker_pids"][1]), signal.SIGKILL)
        alert = local_run.await_that(lambda: self.alerts("LonghaulFault"), "the alert")
        self.assertEqual(alert[0]["labels"]["job_id"], "tiny-1")
        self.assertEqual(self.alerts("LonghaulControllerAbsent"), [])
        self.check_dashboard()
        self.check_exemplar()

    def get(self, path, accept):
        request = urllib.request.Request(
            self.rest + path,
            headers={"Authorization": f"Bearer {self.token}", "Accept": accept})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.headers["Content-Type"], answer.read().decode()

    def check_text(self):
        """It is well-formed, and docs/metrics.md has each family and no other one."""
        kind, text = self.get("/metrics", "*/*")
        self.assertEqual(kind, "text/plain; version=0.0.4; charset=utf-8")
        self.promtool("check", "metrics", input=text)
        kind, other = self.get("/metrics", "application/openmetrics-text; version=1.0.0")
        self.assertEqual(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8")
        self.assertTrue(other.endswith("# EOF\n"), other[-200:])
        families = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
        with open(f"{ROOT}/docs/metrics.md") as file:
            rows = re.findall(r"^\|(.*?)\|", file.read(), re.MULTILINE)
        self.assertEqual(set(re.findall(r"`(longhaul_\w+)`", "".join(rows))), families)

    def start_prometheus(self, folder):
        """With a short interval between scrapes."""
        home = f"{folder}/prometheus"
        os.mkdir(home)
        with open(f"{RULES}/prometheus.yaml") as file:
            config = file.read()
        config = re.sub(r"_interval: \S+", "_interval: 1s", config)
        config = re.sub(r"127.0.0.1:\d+", self.rest.split("://")[1], config)
        with open(f"{home}/prometheus.yaml", "w") as file:
            file.write(config)
        shutil.copy(f"{RULES}/alerts.yaml", home)
        with open(f"{home}/longhaul.token", "w") as file:
            file.write(self.token)
        port, = free_ports.free_ports(1)
        self.address = f"http://127.0.0.1:{port}/api/v1"
        with open(f"{home}/log", "w") as log:
            server = subprocess.Popen(
                ["prometheus", f"--config.file={home}/prometheus.yaml",
                 f"--storage.tsdb.path={home}/data", f"--web.listen-address=127.0.0.1:{port}",
                 "--enable-feature=exemplar-storage"], cwd=home, stdout=log, stderr=log)
        self.addCleanup(server.wait, 60)
        self.addCleanup(server.kill)
        local_run.await_that(lambda: self.query("longhaul_job_step > 0"), "a scrape")

    def ask(self, what, **parameters):
        """None while Prometheus does not answer."""
        try:
            with urllib.request.urlopen(
                    f"{self.address}/{what}?{urllib.parse.urlencode(parameters)}",
                    timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:  # it starts
                return None
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error
        except OSError:
            return None

    def query(self, expression):
        answer = self.ask("query", query=expression)
        return answer and answer["result"]

    def alerts(self, name):
        return [alert for alert in self.ask("alerts")["alerts"]
                if alert["labels"]["alertname"] == name and alert["state"] == "firing"]

    def check_dashboard(self):
        with open(f"{ROOT}/deploy/grafana/longhaul.json") as file:
            dashboard = json.load(file)
        queries = list(expressions(dashboard))
        self.assertGreater(len(queries), 20)
        for title, expression in queries:
            if any(part in expression for part in EMPTY):
                self.query(expression)  # is understood
                continue
            local_run.await_that(lambda: self.query(expression), f"{title}: {expression}",
                                 seconds=30)

    def check_exemplar(self):
        def found():
            now = time.time()
            return self.ask("query_exemplars", query="longhaul_fault_recovery_seconds_bucket",
                            start=now - 600, end=now + 60)
        found = local_run.await_that(found, "an exemplar")
        labels = [exemplar["labels"] for series in found for exemplar in series["exemplars"]]
        self.assertEqual(labels[:1], [{"fault": "1", "class": "process", "node": "node-1"}])


if __name__ == "__main__":
    sys.argv_programs = [os.path.abspath(path) for path in sys.argv[1:]]
    unittest.main(argv=sys.argv[:1])
