"""The process kubelet runs pods of the real kube-apiserver as processes.

  process_kubelet_test.py
"""

import pathlib
import signal
import sys
import tempfile
import time
import unittest
import unittest.mock
import urllib.request

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from api_server import ApiServer, programs_or_skip
from pod_container import marked_processes
from pod_fields import expand, quantity, replace_paths
from process_kubelet import ProcessKubelet, node

PODS = "/api/v1/namespaces/default/pods"
GPU = "nvidia.com/gpu"
WAIT_SECONDS = 30
FOREVER = "while :; do sleep 0.05; done"  # ends at once at SIGTERM to the group
STUBBORN = "trap '' TERM; echo ready; " + FOREVER


def wait_for(condition, what):
    deadline = time.monotonic() + WAIT_SECONDS
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"no {what} after {WAIT_SECONDS} s")
        time.sleep(0.02)
    return found


def shell(script, name="main", **fields):
    return {"name": name, "image": "none", "command": ["sh", "-c", script], **fields}


def a_pod(name, script="true", node_name="a", annotations=None, **spec):
    return {"metadata": {"name": name, "labels": {"color": "red"},
                         "annotations": annotations or {}},
            "spec": {"nodeName": node_name, "restartPolicy": "Never",
                     "terminationGracePeriodSeconds": 30, "containers": [shell(script)], **spec}}


def mounted(name, path, script, volume, **spec):
    """A pod with one volume."""
    made = a_pod(name, script, volumes=[{"name": "data", **volume}], **spec)
    made["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": path}]
    return made


class Fields(unittest.TestCase):
    def test_variables_are_expanded_as_kubernetes_defines_it(self):
        for text, expected in [("$(A)/$(B)", "1/2"), ("$$(A)", "$(A)"), ("$$$(A)", "$1"),
                               ("$(missing)", "$(missing)"), ("$A ${A} $(A", "$A ${A} $(A"),
                               ("a$", "a$"), ("$$", "$")]:
            self.assertEqual(expand(text, {"A": "1", "B": "2"}), expected, text)

    def test_a_path_is_replaced_where_it_begins_and_its_last_name_ends(self):
        paths = {"/a": "/x", "/a/b": "/tmp/a", "/tmp": "/y"}
        for text, expected in [("/a", "/x"), ("/a/c", "/x/c"), ("/a/b/c", "/tmp/a/c"),
                               ("--p=/a:/a/b", "--p=/x:/tmp/a"), ("cat '/a/c'", "cat '/x/c'"),
                               ("/ab /c/a /a-b https://h/a", "/ab /c/a /a-b https://h/a"),
                               ("/tmp/a", "/y/a")]:
            self.assertEqual(replace_paths(text, paths), expected, text)

    def test_a_quantity_is_the_number_it_stands_for(self):
        for text, expected in [("2", 2), ("500m", 0.5), ("1Gi", 1 << 30), ("1e3", 1000),
                               ("1.5k", 1500), ("2E", 2 * 10**18)]:
            self.assertEqual(quantity(text), expected, text)


class ServerTest(unittest.TestCase):
    """One API server and one stand-in, which all tests of this file use."""

    @classmethod
    def setUpClass(cls):
        if hasattr(ServerTest, "kubelet"):
            return
        binaries = programs_or_skip("kube-apiserver", "etcd")
        folder = unittest.enterModuleContext(tempfile.TemporaryDirectory())
        ServerTest.server = unittest.enterModuleContext(ApiServer(binaries, folder))
        cls.server.call("POST", "/api/v1/namespaces/default/serviceaccounts",
                        {"metadata": {"name": "account"}})
        nodes = [node("a", {"zone": "z1"}, gpus=8), "b", node("small", pods=1)]
        ServerTest.kubelet = unittest.enterModuleContext(ProcessKubelet(
            cls.server, nodes, programs={"/opt/python": sys.executable}, volume_period=0.1,
            largest_back_off=0.4))

    def create(self, made):
        made = self.server.call("POST", PODS, made)
        self.addCleanup(self.server.call, "DELETE", f"{PODS}/{made['metadata']['name']}",
                        {"gracePeriodSeconds": 0}, allowed=(200, 202, 404))
        return made

    def pod(self, name):
        return self.server.call("GET", f"{PODS}/{name}")

    def status(self, name):
        return self.pod(name)["status"]

    def wait_for_phase(self, name, *phases):
        def status():
            found = self.status(name)
            return found if found.get("phase") in phases else None
        return wait_for(status, f"pod {name} in phase {', '.join(phases)}")

    def run_to_end(self, made, phase="Succeeded"):
        """The last status of a pod, and what its container main wrote."""
        name = self.create(made)["metadata"]["name"]
        status = self.wait_for_phase(name, "Succeeded", "Failed")
        log = self.kubelet.log(name, "main")
        self.assertEqual(status["phase"], phase, (status, log))
        return status, log

    def start(self, made, line="ready"):
        """Creates a pod, and returns once it is Running and its container has written a line."""
        name = self.create(made)["metadata"]["name"]
        self.wait_for_phase(name, "Running")
        wait_for(lambda: line in self.kubelet.log(name, "main"), f"line {line!r} of pod {name}")
        return name

    def state(self, name, container=0):
        return self.status(name)["containerStatuses"][container]["state"]

    def conditions(self, name):
        return {each["type"]: each for each in self.status(name)["conditions"]}


class Status(ServerTest):
    def test_a_node_is_ready_with_its_labels_and_resources(self):
        found = self.server.call("GET", "/api/v1/nodes/a")
        self.assertEqual(found["metadata"]["labels"]["zone"], "z1")
        self.assertEqual(found["status"]["allocatable"],
                         {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: "8"})
        self.assertEqual([(each["type"], each["status"]) for each in found["status"]["conditions"]],
                         [("Ready", "True")])

    def test_a_running_pod_is_ready_and_has_an_address(self):
        name = self.start(a_pod("running", "echo ready; " + FOREVER))
        status = self.status(name)
        self.assertEqual({kind: each["status"] for kind, each in self.conditions(name).items()},
                         {"Initialized": "True", "Ready": "True", "ContainersReady": "True"})
        self.assertRegex(status["podIP"], r"^127\.\d+\.\d+\.\d+$")
        self.assertEqual(status["podIPs"], [{"ip": status["podIP"]}])
        self.assertEqual(status["hostIP"], self.kubelet.nodes["a"].address)
        self.assertIn("startTime", status)
        container = status["containerStatuses"][0]
        self.assertTrue(container["ready"] and container["started"])
        self.assertEqual(list(container["state"]), ["running"])
        self.assertEqual((container["restartCount"], container["image"]), (0, "none"))

    def test_a_pod_that_ends_well_has_succeeded(self):
        status, log = self.run_to_end(a_pod("good", "echo out; echo err >&2"))
        self.assertEqual(log, "out\nerr\n")
        ended = status["containerStatuses"][0]["state"]["terminated"]
        self.assertEqual((ended["exitCode"], ended["reason"]), (0, "Completed"))
        self.assertLessEqual(ended["startedAt"], ended["finishedAt"])
        self.assertEqual(self.conditions("good")["Ready"]["reason"], "PodCompleted")
        self.assertFalse(status["containerStatuses"][0]["ready"])

    def test_a_pod_with_one_failed_container_fails_when_all_have_ended(self):
        containers = [shell("exit 3"), shell("sleep 0.2", "other")]
        status, _ = self.run_to_end(a_pod("bad", containers=containers), "Failed")
        codes = [each["state"]["terminated"]["exitCode"] for each in status["containerStatuses"]]
        self.assertEqual(codes, [3, 0])

    def test_a_program_that_does_not_exist_fails_to_start(self):
        container = {"name": "main", "image": "none", "command": ["/missing"]}
        status, _ = self.run_to_end(a_pod("missing", containers=[container]), "Failed")
        ended = status["containerStatuses"][0]["state"]["terminated"]
        self.assertEqual((ended["exitCode"], ended["reason"]), (128, "StartError"))

    def test_init_containers_run_in_order_before_the_containers(self):
        mount = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
        made = a_pod("ordered", volumes=[{"name": "data", "emptyDir": {"medium": "Memory"}}],
                     initContainers=[shell("sleep 0.2; echo 1 >> /data/x", "first", **mount),
                                     shell("echo 2 >> /data/x", "second", **mount)],
                     containers=[shell("cat /data/x; rm /data/x", **mount)])
        status, log = self.run_to_end(made)
        self.assertEqual(log, "1\n2\n")
        inits = [(each["name"], each["ready"]) for each in status["initContainerStatuses"]]
        self.assertEqual(inits, [("first", True), ("second", True)])
        self.assertFalse(self.kubelet.volume("ordered", "data").exists())

    def test_a_failed_init_container_fails_a_pod_that_never_restarts(self):
        made = a_pod("uninitialized", "echo never", initContainers=[shell("exit 4", "init")])
        status, log = self.run_to_end(made, "Failed")
        self.assertEqual(log, "")
        self.assertEqual(status["containerStatuses"][0]["state"]["waiting"]["reason"],
                         "PodInitializing")
        self.assertEqual(self.conditions("uninitialized")["Initialized"]["status"], "False")

    def test_a_gated_pod_runs_once_it_is_bound_and_keeps_its_condition(self):
        gated = a_pod("gated", schedulingGates=[{"name": "longhaul.dev/gang"}])
        del gated["spec"]["nodeName"]
        self.create(gated)
        self.run_to_end(a_pod("other"))
        self.assertEqual(self.status("gated")["phase"], "Pending")
        self.assertRaises(KeyError, self.kubelet.runner, "gated")
        self.server.call("PATCH", f"{PODS}/gated", {"spec": {"schedulingGates": None}})
        self.server.call("POST", f"{PODS}/gated/binding", {
            "metadata": {"name": "gated"},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "b"}})
        self.wait_for_phase("gated", "Succeeded")
        self.assertEqual(self.conditions("gated")["PodScheduled"]["status"], "True")

    def test_the_termination_message_is_the_end_of_its_file(self):
        status, _ = self.run_to_end(a_pod("message", "echo hello > /dev/termination-log"))
        ended = status["containerStatuses"][0]["state"]["terminated"]
        self.assertEqual(ended["message"], "hello\n")
        script = "head -c 5000 /dev/zero | tr '\\0' x > /dev/termination-log; printf end >> $FILE"
        container = shell(script, env=[{"name": "FILE", "value": "/dev/termination-log"}])
        status, _ = self.run_to_end(a_pod("long-message", containers=[container]))
        message = status["containerStatuses"][0]["state"]["terminated"]["message"]
        self.assertEqual(message, "x" * 4093 + "end")

    def test_a_failed_container_can_report_the_end_of_its_log(self):
        for name, script, phase, message in [("falls-back", "seq 200; exit 1", "Failed", "200\n"),
                                             ("succeeds", "seq 200", "Succeeded", "")]:
            container = shell(script, terminationMessagePolicy="FallbackToLogsOnError")
            status, _ = self.run_to_end(a_pod(name, containers=[container]), phase)
            ended = status["containerStatuses"][0]["state"]["terminated"]
            found = ended.get("message", "")
            self.assertTrue(found.endswith(message), found)
            self.assertEqual(len(found.splitlines()), 80 if message else 0)


class Environment(ServerTest):
    def test_variables_and_arguments_get_fields_and_earlier_variables(self):
        def field(name, path):
            return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}

        def limit(name, resource, divisor):
            return {"name": name, "valueFrom": {"resourceFieldRef": {
                "resource": resource, "divisor": divisor}}}

        env = [field("NAME", "metadata.name"), field("NAMESPACE", "metadata.namespace"),
               field("POD_UID", "metadata.uid"), field("LABEL", "metadata.labels['color']"),
               field("NOTE", "metadata.annotations['longhaul.dev/note']"),
               field("NODE", "spec.nodeName"), field("IP", "status.podIP"),
               field("HOST", "status.hostIP"), limit("CPU", "limits.cpu", "1"),
               limit("MEMORY", "limits.memory", "1Mi"),
               {"name": "URL", "value": "https://$(IP):1/$$(IP)/$(LATER)"},
               {"name": "LATER", "value": "x"}]
        names = [each["name"] for each in env]
        script = "; ".join(f'echo "${name}"' for name in names) + '; echo "$1" "$2"'
        container = shell(script, env=env, args=["sh", "$(NAME)", "$(missing)"],
                          resources={"limits": {"cpu": "1500m", "memory": "64Mi"}})
        made = a_pod("variables", annotations={"longhaul.dev/note": "two words"},
                     containers=[container])
        status, log = self.run_to_end(made)
        uid = self.pod("variables")["metadata"]["uid"]
        ip = status["podIP"]
        self.assertEqual(log.splitlines(), [
            "variables", "default", uid, "red", "two words", "a", ip, status["hostIP"], "2", "64",
            f"https://{ip}:1/$(IP)/$(LATER)", "x", "variables $(missing)"])

    def test_programs_and_mount_paths_are_replaced(self):
        container = {"name": "main", "image": "none", "workingDir": "/data/work",
                     "command": ["/opt/python", "-c"],
                     "args": ["import os; print(os.getcwd(), os.environ['P'])"],
                     "env": [{"name": "P", "value": "--state=/data/state"}],
                     "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
        make = shell("mkdir /data/work", "make",
                     volumeMounts=[{"name": "data", "mountPath": "/data"}])
        _, log = self.run_to_end(a_pod("paths", initContainers=[make], containers=[container],
                                       volumes=[{"name": "data", "emptyDir": {}}]))
        folder = self.kubelet.volume("paths", "data")
        self.assertEqual(log.split(), [f"{folder}/work", f"--state={folder}/state"])

    def test_two_pods_listen_on_the_same_port_of_their_own_addresses(self):
        env = [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
        script = ("import http.server as h; s = h.HTTPServer(('$(IP)', 48701), "
                  "h.SimpleHTTPRequestHandler); print('ready', flush=True); s.serve_forever()")
        for name in ("server-0", "server-1"):
            container = {"name": "main", "image": "none", "env": env,
                         "command": ["/opt/python", "-c", f"open('{name}', 'w'); {script}"]}
            self.start(a_pod(name, containers=[container]))
        for name in ("server-0", "server-1"):
            address = f"http://{self.status(name)['podIP']}:48701/{name}"
            self.assertEqual(urllib.request.urlopen(address, timeout=10).status, 200)


class PodVolumes(ServerTest):
    def test_a_changed_annotation_appears_in_its_file(self):
        items = [{"path": path, "fieldRef": {"fieldPath": field}} for path, field in
                 [("controller", "metadata.annotations['longhaul.dev/controller']"),
                  ("all/labels", "metadata.labels"), ("name", "metadata.name")]]
        name = self.start(mounted("annotated", "/pod", "cat /pod/controller; " + FOREVER,
                                  {"downwardAPI": {"items": items}},
                                  annotations={"longhaul.dev/controller": "127.0.0.1:1\n"}),
                          "127.0.0.1:1")
        folder = self.kubelet.volume(name, "data")
        self.assertEqual((folder / "all" / "labels").read_text(), 'color="red"\n')
        self.assertEqual((folder / "name").read_text(), "annotated")
        before = (folder / "..data").readlink()
        opened = (folder / "controller").open()
        self.server.call("PATCH", f"{PODS}/{name}", {"metadata": {"annotations": {
            "longhaul.dev/controller": "127.0.0.2:2"}}})
        wait_for(lambda: (folder / "controller").read_text() == "127.0.0.2:2", "new annotation")
        self.assertNotEqual((folder / "..data").readlink(), before)
        self.assertEqual((folder / "controller").readlink(), pathlib.Path("..data/controller"))
        with opened:
            self.assertEqual(opened.read(), "127.0.0.1:1\n")  # a file is never changed in place
        wait_for(lambda: not (folder / before).exists(), "end of the old files")

    def token_pod(self, name, node_name="a"):
        source = {"serviceAccountToken": {"audience": "longhaul.dev/job/1", "path": "token",
                                          "expirationSeconds": 600}}
        return mounted(name, "/token", "echo ready; " + FOREVER, {"projected": {
            "sources": [source]}}, serviceAccountName="account", node_name=node_name)

    def test_a_token_is_accepted_for_its_audience_and_names_its_pod(self):
        name = self.start(self.token_pod("holder"))
        token = (self.kubelet.volume(name, "data") / "token").read_text()
        for audience, is_accepted in [("longhaul.dev/job/1", True), ("longhaul.dev/job/2", False)]:
            review = self.server.call("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {
                "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
                "spec": {"token": token, "audiences": [audience]}})["status"]
            self.assertEqual(review.get("authenticated", False), is_accepted, review)
            if is_accepted:
                self.assertEqual(review["user"]["username"],
                                 "system:serviceaccount:default:account")
                extra = review["user"]["extra"]
                self.assertEqual(extra["authentication.kubernetes.io/pod-name"], [name])

    def test_a_token_is_renewed_before_its_end(self):
        with ProcessKubelet(self.server, ["renewing"], volume_period=0.1,
                            token_renewal=0.001) as kubelet:  # 0.6 s of 600 s
            self.create(self.token_pod("renewed", "renewing"))
            self.wait_for_phase("renewed", "Running")
            file = kubelet.volume("renewed", "data") / "token"
            first = file.read_text()
            wait_for(lambda: file.read_text() != first, "new token")

    def test_a_pod_whose_volume_cannot_be_made_waits_and_says_why(self):
        made = mounted("waiting", "/data", "cat /data/key", {"configMap": {"name": "late"}})
        self.create(made)
        message = wait_for(lambda: self.status("waiting").get("containerStatuses") and
                           self.state("waiting")["waiting"].get("message"), "message")
        self.assertIn('configmaps "late" not found', message)
        self.server.call("POST", "/api/v1/namespaces/default/configmaps",
                         {"metadata": {"name": "late"}, "data": {"key": "value"}})
        self.wait_for_phase("waiting", "Succeeded")
        self.assertEqual(self.kubelet.log("waiting", "main"), "value")

    def test_what_a_worker_of_a_job_usually_has_is_accepted(self):
        rights = {"runAsNonRoot": True, "runAsUser": 1000, "allowPrivilegeEscalation": False,
                  "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
                  "seccompProfile": {"type": "RuntimeDefault"}}
        container = shell("echo done", securityContext=rights, imagePullPolicy="Never",
                          ports=[{"containerPort": 8701}], stdin=False,
                          resources={"requests": {"cpu": "1"}, "limits": {GPU: "8"}},
                          volumeMounts=[{"name": "shm", "mountPath": "/dev/shm"}])
        shm = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}
        _, log = self.run_to_end(a_pod(
            "usual", containers=[container], volumes=[shm], schedulerName="longhaul",
            automountServiceAccountToken=False, enableServiceLinks=False,
            securityContext={"fsGroup": 1000}, nodeSelector={"zone": "z1"},
            tolerations=[{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]))
        self.assertEqual(log, "done\n")

    def test_what_is_not_implemented_is_refused_by_name(self):
        probe = {"exec": {"command": ["true"]}}
        secret = {"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
        claim = {"persistentVolumeClaim": {"claimName": "c"}}
        for i, (made, field) in enumerate([
                (mounted("", "/h", "true", {"hostPath": {"path": "/"}}), "volumes[0].hostPath"),
                (mounted("", "/h", "true", {"secret": {"secretName": "s"}}), "volumes[0].secret"),
                (mounted("", "/h", "true", claim), "volumes[0].persistentVolumeClaim"),
                (a_pod("", containers=[shell("true", livenessProbe=probe)]), "livenessProbe"),
                (a_pod("", containers=[shell("true", lifecycle={"preStop": probe})]), "lifecycle"),
                (a_pod("", containers=[shell("true", env=[secret])]), "valueFrom.secretKeyRef"),
                (a_pod("", hostNetwork=True), "spec.hostNetwork"),
                (a_pod("", initContainers=[shell("true", "i", restartPolicy="Always")]),
                 "spec.initContainers[0].restartPolicy")]):
            made["metadata"]["name"] = f"refused-{i}"
            status, log = self.run_to_end(made, "Failed")
            self.assertEqual((status["reason"], log), ("Unsupported", ""))
            self.assertIn(field, status["message"])


class Restarts(ServerTest):
    def test_on_failure_restarts_in_place_and_keeps_the_empty_dir(self):
        script = "echo run >> /data/x; [ $(wc -l < /data/x) -ge 3 ]"
        status, _ = self.run_to_end(mounted("restarted", "/data", script, {"emptyDir": {}},
                                            restartPolicy="OnFailure"))
        container = status["containerStatuses"][0]
        self.assertEqual(container["restartCount"], 2)
        self.assertEqual(container["lastState"]["terminated"]["exitCode"], 1)
        self.assertFalse(self.kubelet.volume("restarted", "data").exists())

    def test_a_container_that_fails_again_waits_in_crash_loop_back_off(self):
        self.create(a_pod("failing", "exit 7", restartPolicy="OnFailure"))
        wait_for(lambda: self.status("failing").get("containerStatuses") and self.state("failing")
                 .get("waiting", {}).get("reason") == "CrashLoopBackOff", "back-off")
        wait_for(lambda: self.status("failing")["containerStatuses"][0]["restartCount"] >= 2,
                 "second restart")
        status = self.status("failing")
        self.assertEqual(status["phase"], "Running")
        last = status["containerStatuses"][0]["lastState"]["terminated"]
        self.assertEqual((last["exitCode"], last["reason"]), (7, "Error"))

    def test_always_restarts_a_container_that_succeeded(self):
        self.create(a_pod("always", "true", restartPolicy="Always"))
        wait_for(lambda: self.status("always").get("containerStatuses") and
                 self.status("always")["containerStatuses"][0]["restartCount"] >= 1, "restart")

    def test_never_fails_with_137_after_kill_9_and_nothing_of_the_pod_remains(self):
        name = self.start(a_pod("killed", f"setsid sh -c '{FOREVER}' & echo ready; {FOREVER}"))
        wait_for(lambda: len(self.kubelet.processes(name)) >= 2, "child")
        self.kubelet.kill_container(name, "main", signal.SIGKILL)
        status = self.wait_for_phase(name, "Failed")
        ended = status["containerStatuses"][0]["state"]["terminated"]
        self.assertEqual((ended["exitCode"], ended["reason"]), (137, "Error"))
        self.assertEqual(self.kubelet.processes(name), [])

    def test_a_test_can_play_the_end_of_memory(self):
        name = self.start(a_pod("hungry", "echo ready; " + FOREVER))
        self.kubelet.kill_container(name, "main", reason="OOMKilled")
        status = self.wait_for_phase(name, "Failed")
        ended = status["containerStatuses"][0]["state"]["terminated"]
        self.assertEqual((ended["exitCode"], ended["reason"]), (137, "OOMKilled"))


class Deletion(ServerTest):
    def delete(self, name, **options):
        self.server.call("DELETE", f"{PODS}/{name}", options or None)

    def is_gone(self, name):
        return self.server.send("GET", f"{PODS}/{name}")[0] == 404

    def kept(self, made):
        """With a finalizer the last status can be read after the kubelet's DELETE."""
        made["metadata"]["finalizers"] = ["longhaul.dev/test"]
        self.addCleanup(self.server.call, "PATCH", f"{PODS}/{made['metadata']['name']}",
                        {"metadata": {"finalizers": None}}, allowed=(200, 404))
        return made

    def test_a_deleted_pod_gets_sigterm_and_reports_how_it_ended(self):
        script = f"trap 'echo saved; exit 0' TERM; echo ready; {FOREVER}"
        name = self.start(self.kept(a_pod("polite", script)))
        self.delete(name)
        status = self.wait_for_phase(name, "Succeeded", "Failed")
        self.assertEqual(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], 0)
        wait_for(lambda: self.pod(name)["metadata"]["deletionGracePeriodSeconds"] == 0, "DELETE")
        self.server.call("PATCH", f"{PODS}/{name}", {"metadata": {"finalizers": None}})
        wait_for(lambda: self.is_gone(name), "end of the pod")
        self.assertIn("saved", self.kubelet.log(name, "main"))

    def test_a_pod_that_ignores_sigterm_is_killed_after_its_grace(self):
        name = self.start(self.kept(a_pod("stubborn", STUBBORN,
                                          terminationGracePeriodSeconds=1)))
        begin = time.monotonic()
        self.delete(name)
        status = self.wait_for_phase(name, "Failed")
        self.assertGreaterEqual(time.monotonic() - begin, 1)
        self.assertEqual(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], 137)
        self.assertEqual(self.kubelet.processes(name), [])

    def test_a_forced_deletion_kills_the_processes(self):
        name = self.start(a_pod("forced", STUBBORN))
        self.assertNotEqual(self.kubelet.processes(name), [])
        self.delete(name, gracePeriodSeconds=0)
        self.assertTrue(self.is_gone(name))
        wait_for(lambda: not self.kubelet.processes(name), "end of the processes")

    def test_a_pod_that_vanished_unseen_is_killed_when_its_kubelet_is_there_again(self):
        name = self.start(a_pod("vanished", STUBBORN, node_name="b"))
        self.addCleanup(self.kubelet.resume, "b")
        self.kubelet.pause_node("b")
        self.delete(name, gracePeriodSeconds=0)
        self.run_to_end(a_pod("meanwhile"))
        self.assertNotEqual(self.kubelet.processes(name), [])
        self.kubelet.resume("b")
        wait_for(lambda: not self.kubelet.processes(name), "end of the processes")

    def test_a_pod_that_waits_for_its_restart_can_be_deleted(self):
        self.create(a_pod("looping", "exit 1", restartPolicy="Always"))
        wait_for(lambda: self.status("looping").get("containerStatuses") and
                 "waiting" in self.state("looping"), "back-off")
        self.delete("looping")
        wait_for(lambda: self.is_gone("looping"), "end of the pod")


class Nodes(ServerTest):
    def test_a_pod_beyond_the_gpus_of_its_node_is_rejected(self):
        def gpus(name, script="echo ready; " + FOREVER):
            return a_pod(name, containers=[shell(script, resources={"limits": {GPU: "5"}})])

        first = self.start(gpus("five"))
        status, _ = self.run_to_end(gpus("five-more"), "Failed")
        self.assertEqual(status["reason"], "OutOf" + GPU)
        self.assertIn("requested: 5, used: 5, capacity: 8", status["message"])
        self.kubelet.kill_container(first, "main")
        self.wait_for_phase(first, "Failed")
        self.run_to_end(gpus("five-again", "true"))

    def test_a_pod_beyond_the_count_of_its_node_is_rejected(self):
        self.start(a_pod("one", "echo ready; " + FOREVER, node_name="small"))
        status, _ = self.run_to_end(a_pod("two", node_name="small"), "Failed")
        self.assertEqual(status["reason"], "OutOfpods")

    def ready(self, name):
        conditions = self.server.call("GET", f"/api/v1/nodes/{name}")["status"]["conditions"]
        return next(each["status"] for each in conditions if each["type"] == "Ready")

    def test_a_killed_node_is_silent_and_its_containers_are_lost(self):
        self.addCleanup(self.kubelet.resume, "b")
        never = self.start(a_pod("lost", "echo ready; " + FOREVER, node_name="b"))
        # What lies in memory is empty after the boot, so its init container has to run again.
        volumes = [{"name": "data", "emptyDir": {"medium": "Memory"}}]
        mount = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
        again = self.start(a_pod(
            "booted", node_name="b", restartPolicy="OnFailure", volumes=volumes,
            initContainers=[shell("echo install >> /data/x", "install", **mount)],
            containers=[shell("cat /data/x; echo ready; " + FOREVER, **mount)]))
        address = self.status(again)["podIP"]
        self.kubelet.kill_node("b")
        self.assertEqual(self.kubelet.processes(never) + self.kubelet.processes(again), [])
        self.assertEqual(self.ready("b"), "Unknown")
        self.assertEqual(list(self.state(never)), ["running"])
        self.kubelet.resume("b")
        self.assertEqual(self.ready("b"), "True")
        status = self.wait_for_phase(never, "Failed")
        ended = status["containerStatuses"][0]["state"]["terminated"]
        self.assertEqual((ended["exitCode"], ended["reason"]), (255, "Unknown"))
        wait_for(lambda: self.kubelet.log(again, "main").count("ready") == 2, "second start")
        self.assertEqual(self.kubelet.log(again, "main"), "install\nready\n" * 2)
        wait_for(lambda: "running" in self.state(again), "report")
        status = self.status(again)
        self.assertNotEqual(status["podIP"], address)
        self.assertEqual(status["podIPs"], [{"ip": status["podIP"]}])
        self.assertEqual(status["initContainerStatuses"][0]["restartCount"], 1)

    def test_a_paused_node_reports_nothing_and_sees_no_deletion(self):
        self.addCleanup(self.kubelet.resume, "b")
        ends = self.start(a_pod("ends", "echo ready; " + FOREVER, node_name="b"))
        runs = self.start(a_pod("runs-on", "echo ready; " + FOREVER, node_name="b"))
        self.kubelet.pause_node("b")
        self.kubelet.kill_container(ends, "main")
        self.server.call("DELETE", f"{PODS}/{runs}")
        self.create(a_pod("new", node_name="b"))
        self.run_to_end(a_pod("elsewhere"))  # the stand-in itself goes on
        self.assertEqual(list(self.state(ends)), ["running"])
        self.assertNotEqual(self.kubelet.processes(runs), [])
        self.assertNotIn("startTime", self.status("new"))
        self.kubelet.resume("b")
        self.wait_for_phase(ends, "Failed")
        self.wait_for_phase("new", "Succeeded")
        wait_for(lambda: self.server.send("GET", f"{PODS}/{runs}")[0] == 404, "end of the pod")
        self.assertEqual(self.kubelet.processes(runs), [])

    def test_pods_are_listed_again_after_a_watch_has_broken(self):
        self.kubelet.watch.close()
        self.run_to_end(a_pod("after-a-break"))

    def test_what_happened_while_there_was_no_server_is_reported_later(self):
        ends = self.start(a_pod("ended-meanwhile", "echo ready; sleep 0.5; exit 5"))
        self.server.restart_server()
        status = self.wait_for_phase(ends, "Failed")
        ended = status["containerStatuses"][0]["state"]["terminated"]
        self.assertEqual(ended["exitCode"], 5)
        self.run_to_end(a_pod("after-a-restart"))
        # The cache of a server that was restarted lacks the first versions: it answers with 410.
        with unittest.mock.patch("process_kubelet.WATCH_SECONDS", 5):
            self.assertIsNone(ProcessKubelet(self.server, []).watch_pods("1"))

    def test_no_process_and_no_folder_remain_at_the_end(self):
        with ProcessKubelet(self.server, ["short"]) as kubelet:
            script = f"trap '' TERM; setsid sh -c '{FOREVER}' & {FOREVER}"
            made = self.create(a_pod("remains", script, node_name="short"))
            self.wait_for_phase("remains", "Running")
            wait_for(lambda: len(kubelet.processes("remains")) >= 2, "child")
            folder = kubelet.folder
        self.assertEqual(marked_processes([made["metadata"]["uid"]]), [])
        self.assertFalse(folder.exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
