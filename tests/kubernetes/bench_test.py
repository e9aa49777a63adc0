"""The parts of bench/kubernetes that need no cluster.

  bench_test.py
"""

import argparse
import contextlib
import io
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
BENCH = pathlib.Path(__file__).resolve().parent.parent.parent / "bench" / "kubernetes"
sys.path.insert(0, str(BENCH))
import cases  # noqa: E402
import processes  # noqa: E402
import report  # noqa: E402
import scheduling  # noqa: E402


def run(scheduler, number, rate, **figures):
    return {"scheduler": scheduler, "round": number, "pods_per_s": rate, **figures}


class Summaries(unittest.TestCase):
    SAMPLES = [
        run("default", 0, 50),
        run("ceiling", 0, 1000), run("tuned", 0, 400), run("longhaul", 0, 900, cpu_ms_per_pod=0.1),
        run("ceiling", 1, 2000), run("tuned", 1, 500), run("longhaul", 1, 1500, cpu_ms_per_pod=0.12),
        run("ceiling", 2, 2000),
    ]

    def test_ratios_are_within_a_round(self):
        summary = report.summarise(self.SAMPLES)
        self.assertEqual(list(summary), ["ceiling", "default", "tuned", "longhaul"])
        self.assertEqual(summary["ceiling"], {"runs": 3, "pods_per_s": 2000})
        # The ceilings around the rounds are 1,500 and 2,000: 900 / 1,500 and 1,500 / 2,000.
        self.assertAlmostEqual(summary["longhaul"]["of_ceiling"], (0.6 + 0.75) / 2)
        self.assertAlmostEqual(summary["longhaul"]["of_tuned"], (2.25 + 3) / 2)
        self.assertAlmostEqual(summary["default"]["of_tuned"], 0.125)

    def test_goals_are_judged(self):
        goals = cases.CASES["backlog"].goals
        judged = report.judge(goals, report.summarise(self.SAMPLES))
        self.assertEqual([each["reached"] for each in judged], [False, True, True])
        judged = report.judge(goals, report.summarise(self.SAMPLES[:3]))
        self.assertEqual([each["reached"] for each in judged], [None] * 3)

    def test_latencies_are_compared(self):
        samples = [{"scheduler": name, "round": 0, "latency_ms_p50": p50, "latency_ms_p99": p99}
                   for name, p50, p99 in (("tuned", 20, 150), ("longhaul", 4, 45))]
        judged = report.judge(cases.CASES["arrivals"].goals, report.summarise(samples))
        self.assertEqual([each["reached"] for each in judged], [True] * 3)
        self.assertAlmostEqual(judged[2]["value"], 0.3)

    def test_table_names_what_was_not_measured(self):
        case = cases.CASES["backlog"]
        summary = report.summarise(self.SAMPLES[:3])
        lines = report.case_lines(case, {name: name for name in summary}, {
            "summary": summary, "goals": report.judge(case.goals, summary)})
        self.assertIn("1,000 one-GPU pods", lines[0])
        self.assertRegex(lines[4], r"tuned +1 +400 +0\.40 +1\.00 +- ")
        self.assertIn("at least 0.8 of the ceiling: not measured", lines[5])


class Processes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def scheduler(self, *words):
        return processes.RunningScheduler(
            cases.Scheduler("other", "other scheduler", words, "other", "none"), self.folder)

    def test_scheduler_that_ends_early_is_reported_with_its_log(self):
        with self.scheduler("sh", "-c", "echo no such file; exit 3") as running:
            running.process.wait()
            with self.assertRaisesRegex(processes.Failure,
                                        "other scheduler has ended with exit code 3(.|\n)*"
                                        "no such file"):
                running.cpu_seconds()

    def test_scheduler_that_cannot_be_started_is_named(self):
        with self.assertRaisesRegex(processes.Failure, "cannot start /nowhere/program: No such"):
            with self.scheduler("/nowhere/program"):
                pass

    def test_scheduler_that_ignores_sigterm_is_killed(self):
        with mock.patch.object(processes, "STOP_SECONDS", 0.05):
            with self.assertRaisesRegex(processes.Failure, "has not ended 0.05 s after SIGTERM"):
                # The shell ignores the signal before it reports that it runs.
                with self.scheduler("sh", "-c", "trap '' TERM; echo runs; exec sleep 60") as running:
                    while not running.log.read_text():
                        pass
                    running.stop()
        self.assertIsNotNone(running.process.returncode)

    def test_cpu_time_is_that_of_the_process(self):
        with self.scheduler("sleep", "60") as running:
            used = running.rest(0)
        self.assertGreater(used, 0)
        self.assertLess(used, 0.1)

    def test_wrong_work_has_no_rate(self):
        case = cases.CASES["gangs"]
        good = {"bound": 8, "pods": 8, "most_pods_on_a_node": 8, "partly_bound_gangs": 0}
        with self.scheduler("sleep", "60") as running:
            processes.check_binds(good, case, running)
            for key, value, text in (("bound", 7, "has bound 7 of 8 pods"),
                                     ("most_pods_on_a_node", 9, "9 pods of one GPU"),
                                     ("partly_bound_gangs", 2, "only a part of 2 gangs")):
                with self.assertRaisesRegex(processes.Failure, text):
                    processes.check_binds({**good, key: value}, case, running)


class CommandLine(unittest.TestCase):
    def check(self, code, text, *words):
        done = subprocess.run([BENCH / "scheduling.py", *words], capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(text, done.stdout + done.stderr)

    def test_errors_name_the_object_and_the_remedy(self):
        self.check(0, "examples:", "--help")
        self.check(2, "--cases: 'small' is unknown, expected some of backlog,large,gangs,arrivals",
                   "--cases", "small")
        self.check(2, "--rounds is 0, expected 1 to 100", "--rounds", "0")
        self.check(2, "there is no program /nowhere", "--longhaul", "/nowhere")
        self.check(1, "build it with `ninja -C build/release kubernetes_load`", "--programs",
                   "/nowhere")

    def test_longhaul_without_the_command_is_left_out(self):
        given = argparse.Namespace(longhaul=pathlib.Path("/bin/false"),
                                   schedulers=["tuned", "longhaul"])
        with contextlib.redirect_stderr(io.StringIO()) as printed:
            scheduling.leave_out_missing(given)
            self.assertEqual(given.schedulers, ["tuned"])
        self.assertIn("longhaul is left out, because /bin/false has no command `kube schedule`",
                      printed.getvalue())

    def test_longhaul_with_the_command_is_measured(self):
        given = argparse.Namespace(longhaul=pathlib.Path("/bin/true"), schedulers=["longhaul"])
        scheduling.leave_out_missing(given)
        self.assertEqual(given.schedulers, ["longhaul"])


if __name__ == "__main__":
    unittest.main()
