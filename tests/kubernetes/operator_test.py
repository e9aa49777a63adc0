"""`longhaul kube operate`: whole LonghaulJobs with the real kube-apiserver.

  operator_test.py LONGHAUL

LONGHAUL is the built program; longhaul-kube and longhaul-trainer are beside it. The operator and
the scheduler are those of the product. The kubelets are the stand-in of process_kubelet.py, which
runs the pods' containers as processes. Skipped, with a line, where tools/kubernetes_environment
has not built the programs.
"""

import json
import os
import pathlib
import signal
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import operator_case
from operator_case import JOBS, LONG, PODS, STEPS, OperatorCase, wait_for


class OperatorTest(OperatorCase):
    def test_a_job_goes_from_apply_to_succeeded(self):
        run = self.make("plain")
        self.await_phase("plain", "Succeeded")
        status = self.job("plain")["status"]
        self.assertEqual(status["restarts"], 0)
        self.assertGreater(status["goodput"], 0)
        self.assertEqual(len(self.losses(run)), STEPS)
        wait_for(lambda: not self.pods("worker"), "the end of the workers")
        controller, = self.pods("controller")
        self.assertEqual(controller["status"]["phase"], "Succeeded", "it stays for its log")
        self.assertIn("succeeded", self.kubelet.log("plain-controller-0", "controller"))
        self.delete("plain")
        self.assertEqual(self.pods(), [])

    def test_losses_stay_those_of_an_undisturbed_run_whatever_is_killed(self):
        expected = self.undisturbed(LONG)
        run = self.make("hurt", steps=LONG)
        self.await_phase("hurt", "Running")
        wait_for(lambda: self.step(run) > 100, "the first steps")
        os.kill(wait_for(lambda: self.worker_process("hurt-worker-2-0"), "a worker"),
                signal.SIGKILL)
        wait_for(lambda: self.job("hurt")["status"]["restarts"] == 1, "a restart")
        self.server.call("DELETE", f"{PODS}/hurt-worker-1-0")
        wait_for(lambda: "hurt-worker-1-1" in self.names(), "the worker's next life")
        # On a busy machine the lost connection may come so long after the ends of the other workers
        # that these are a restart of their own.
        wait_for(lambda: self.job("hurt")["status"]["restarts"] >= 2, "a second restart")
        wait_for(lambda: self.worker_process("hurt-worker-1-1"), "its worker")
        # The workers do not notice these two.
        before = wait_for(lambda: self.worker_process("hurt-worker-3-0"), "a worker")
        self.restart_operator()
        self.kubelet.kill_container("hurt-controller-0", "controller", signal.SIGKILL)
        step = self.step(run)
        wait_for(lambda: self.step(run) > step + 50, "further steps")
        self.assertEqual(self.worker_process("hurt-worker-3-0"), before)
        self.await_phase("hurt", "Succeeded")
        status = self.job("hurt")["status"]
        self.assertIn(status["restarts"], (2, 3))
        losses = self.losses(run)
        self.assertEqual(losses, {step: expected[step] for step in losses})
        # The report of a step may be lost with the controller, not the step.
        self.assertGreaterEqual(len(losses), LONG - 2)
        self.assertEqual(max(losses), LONG)
        events = self.events("hurt")
        told = [reason for reason, _ in events]
        for reason in ("Queued", "Running", "Restarted", "Succeeded"):
            self.assertIn(reason, told)
        self.assertIn("SIGKILL", " ".join(note for _, note in events))

    def test_a_suspended_job_has_no_pods_and_continues_from_its_checkpoint(self):
        expected = self.undisturbed(LONG - 1)
        run = self.make("pause", steps=LONG - 1)
        self.await_phase("pause", "Running")
        wait_for(lambda: self.step(run) > 50, "the first steps")
        self.server.call("PATCH", f"{JOBS}/pause", {"spec": {"suspend": True}})
        self.await_phase("pause", "Suspended")
        wait_for(lambda: not self.pods(), "the end of all pods")
        reached = self.step(run)
        self.assertLess(reached, LONG - 1)
        self.server.call("PATCH", f"{JOBS}/pause", {"spec": {"suspend": False}})
        self.await_phase("pause", "Succeeded")
        losses = self.losses(run)
        self.assertGreaterEqual(min(losses), reached, "it did not begin again")
        self.assertEqual(losses, {step: expected[step] for step in losses})

    def test_a_changed_template_replaces_all_pods_after_a_checkpoint(self):
        expected = self.undisturbed(LONG + 2, workers=2)
        run = self.make("swap", workers=2, steps=LONG + 2)
        self.await_phase("swap", "Running")
        wait_for(lambda: self.step(run) > 50, "the first steps")
        reached = self.step(run)
        self.server.call("PATCH", f"{JOBS}/swap", {"spec": {"template": {"spec": {"containers": [
            {"name": "worker", "image": "train:test",
             "env": [{"name": "COLOUR", "value": "green"}]}]}}}})
        wait_for(lambda: self.names("worker") == ["swap-worker-0-1", "swap-worker-1-1"],
                 "new workers")
        for pod in self.pods("worker"):
            if "deletionTimestamp" not in pod["metadata"]:
                container, = pod["spec"]["containers"]
                self.assertIn({"name": "COLOUR", "value": "green"}, container["env"])
        self.await_phase("swap", "Succeeded")
        losses = self.losses(run)
        self.assertGreaterEqual(min(losses), reached, "it did not begin again")
        self.assertEqual(losses, {step: expected[step] for step in losses})

    def test_a_worker_of_a_dead_node_is_replaced_on_another_one(self):
        run = self.make("node", workers=2, steps=LONG)
        self.await_phase("node", "Running")
        wait_for(lambda: self.step(run) > 50, "the first steps")
        dead, = (pod["spec"]["nodeName"] for pod in self.pods("worker")
                 if pod["metadata"]["name"] == "node-worker-1-0")
        controller, = self.pods("controller")
        if controller["spec"]["nodeName"] == dead:
            self.skipTest("the controller is on that node, too")
        self.kubelet.kill_node(dead)
        try:
            wait_for(lambda: "node-worker-1-1" in self.names(), "the worker's next life")
            self.await_phase("node", "Succeeded")
            self.assertGreaterEqual(self.job("node")["status"]["restarts"], 1)
        finally:
            self.kubelet.resume(dead)

    def test_an_elastic_job_grows_into_free_room_and_gives_it_back(self):
        # Only one worker fits a node.
        room = {"resource": "nvidia.com/gpu", "perWorker": 8}
        job = {"command": ["/bin/sh", "-c", "echo $WORLD_SIZE workers; exec sleep 600"],
               "resources": {"processes_per_node": 1}}
        self.cordon(True, "n2", "n3")
        self.addCleanup(self.cordon, False)
        self.make("grow", workers={"desired": 2, "max": 4}, devices=room, job=job)
        self.await_phase("grow", "Running")
        extra = wait_for(lambda: [pod for pod in self.pods("worker") if "schedulingGates" not in
                                  pod["spec"] and "nodeName" not in pod["spec"]],
                         "an extra worker")
        self.assertEqual([pod["metadata"]["name"] for pod in extra], ["grow-worker-2-0"])
        self.assertEqual((extra[0]["spec"]["priority"], extra[0]["spec"]["preemptionPolicy"]),
                         (-1000, "Never"))
        self.assertEqual(self.phase("grow"), "Running")

        def says(pod, text):
            return text in self.kubelet.log(pod, "worker")
        self.cordon(False, "n2")
        wait_for(lambda: self.job("grow")["status"]["ready"] == 3, "the third worker")
        wait_for(lambda: says("grow-worker-2-0", "3 workers"), "the growth")
        wait_for(lambda: "grow-worker-3-0" in self.names(), "the next extra worker")
        self.assertEqual(self.job("grow")["status"]["desired"], 2)

        # Another job gets the place of the extra worker, and the first one runs on without it.
        self.make("other", workers=1, devices=room, job=job)
        self.await_phase("other", "Running")
        wait_for(lambda: "grow-worker-2-1" in self.names(), "its next life")
        wait_for(lambda: self.phase("grow") == "Running" and
                 self.job("grow")["status"]["ready"] == 2, "the run of two")
        usual = [pod["metadata"]["name"] for pod in self.pods("worker")
                 if pod["metadata"]["labels"]["longhaul.dev/job"] == "grow"
                 and pod["spec"].get("nodeName")]
        self.assertEqual(sorted(usual), ["grow-worker-0-0", "grow-worker-1-0"])

    def test_a_wrong_job_is_explained(self):
        self.make("wrong", template={"spec": {"containers": [
            {"name": "worker", "image": "train:test", "args": ["x"]}]}})
        self.await_phase("wrong", "Failed")
        conditions = {each["type"]: each for each in self.job("wrong")["status"]["conditions"]}
        self.assertIn("args of the worker container", conditions["Failed"]["message"])
        self.make("wrong-file", workers=1, job={"train": {"stpes": 3}})
        self.await_phase("wrong-file", "Failed")
        self.assertIn("stpes", self.kubelet.log("wrong-file-controller-0", "controller"))

    def test_a_command_writes_into_the_logs_of_its_pods(self):
        self.make("words", workers=2, job={
            "command": ["/bin/sh", "-c", "echo node $GROUP_RANK of $WORLD_SIZE says $WORD; exit $CODE"],
            "environment": {"WORD": "hello", "CODE": "0"}})
        self.await_phase("words", "Succeeded")
        for rank in range(2):
            self.assertIn(f"[rank {rank}] node {rank} of 2 says hello",
                          "".join(self.kubelet.log(f"words-worker-{index}-0", "worker")
                                  for index in range(2)))
        # A command that fails ends the job, and the status says why.
        self.make("fails", workers=1, job={
            "command": ["/bin/sh", "-c", "exit 7"], "max_restarts": 0})
        self.await_phase("fails", "Failed")
        conditions = {each["type"]: each for each in self.job("fails")["status"]["conditions"]}
        self.assertIn("7", conditions["Failed"]["message"])

    def test_why_a_job_waits_is_in_its_status(self):
        self.make("wide", workers=2, devices={"resource": "nvidia.com/gpu", "perWorker": 9})
        wait_for(lambda: "9 GPUs" in json.dumps(self.job("wide").get("status", {})),
                 "the reason")
        self.assertEqual(self.phase("wide"), "Queued")
        self.delete("wide")


if __name__ == "__main__":
    operator_case.LONGHAUL = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
