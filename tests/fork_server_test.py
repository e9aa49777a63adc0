"""Python workers that are forked from a fork server behave like those that are started.

usage: fork_server_test.py LONGHAUL

The packages are made by the tests: nothing but Python is needed.
"""
import json
import os
import re
import signal
import sys
import time
import unittest

import ddp_test

# What a program can see of how it was started.
SIGHT = """
import json, os, signal, sys
import useful
import neighbour
def lines(path):
    with open(path) as file:
        return file.read()
def limits():
    import resource
    return resource.getrlimit(resource.RLIMIT_NOFILE)
own = {name: value for name, value in os.environ.items()
       if name not in ("LONGHAUL_FORKED", "LONGHAUL_FORK_SERVER", "LONGHAUL_AGENT_SOCKET",
                       "MASTER_PORT", "TORCHELASTIC_ERROR_FILE", "PWD", "OLDPWD", "_",
                       "LONGHAUL_TEST_MARK")}
main = sys.modules["__main__"]
seen = {
    "argv": sys.argv, "orig_argv": getattr(sys, "orig_argv", None), "path": sys.path,
    "name": __name__, "file": __file__, "main": main.__file__, "is_main": main.SIGHT,
    "builtins": type(__builtins__).__name__, "spec": __spec__ and __spec__.name,
    "package": __package__, "doc": __doc__, "flags": str(sys.flags), "folder": os.getcwd(),
    "environment": own, "group": os.getpgid(0) == os.getpid(), "session": os.getsid(0) == os.getpid(),
    "signals": [str(signal.getsignal(each)) for each in (signal.SIGINT, signal.SIGTERM,
                                                         signal.SIGPIPE, signal.SIGCHLD)],
    "mask": str(signal.pthread_sigmask(signal.SIG_BLOCK, [])), "limits": limits(),
    "input": os.readlink("/proc/self/fd/0"), "neighbour": neighbour.VALUE,
    "command": lines("/proc/self/cmdline").strip(chr(0)).split(chr(0))[1:],
    "modules": [each for each in ("useful", "unittest") if each in sys.modules],
    "own_name": type(sys).__name__, "umask": os.umask(0o22), "buffered": sys.stdout.line_buffering,
}
with open(f"seen-{os.environ['RANK']}.json", "w") as file:
    json.dump(seen, file, sort_keys=True)
print("forked", os.environ.get("LONGHAUL_FORKED"), flush=True)
"""
SIGHT = SIGHT.replace("import json, os, signal, sys", "import json, os, signal, sys\nSIGHT = 1", 1)
# Says when it is loaded, and by whom.
PACKAGE = """
import os
with open(os.environ["LOADED"], "a") as file:
    file.write("%s %d %s\\n" % (__name__, os.getpid(), os.environ.get("RANK")))
VERSION = 1
"""


class ForkServer(ddp_test.RunTest):
    def setUp(self):
        super().setUp()
        self.packages = f"{self.folder}/lib/site-packages"
        os.makedirs(self.packages)
        self.package("useful", PACKAGE)

    def package(self, name, text):
        with open(f"{self.packages}/{name}.py", "w") as file:
            file.write(text)

    def begin(self, *words, **environment):
        return self.start(*words, PYTHONPATH=self.packages, LOADED=f"{self.folder}/loaded",
                          **environment)

    def run_script(self, text, *options, **environment):
        self.write("train.py", text)
        options = options if "--procs" in options else ("--procs", "2", *options)
        run = self.begin(*options, "--", ddp_test.PYTHON, "train.py", **environment)
        code = run.end()
        return code, run.text()

    def loaded(self, name):
        """The ranks that have loaded a package; None stands for the fork server."""
        with open(f"{self.folder}/loaded") as file:
            found = [line.split() for line in file]
        return [None if rank == "None" else int(rank) for each, _, rank in found if each == name]

    def seen(self, *words, **environment):
        run = self.begin("--procs", "2", "--name", "train", "--", *words, **environment)
        self.assertEqual(run.end(), 0, run.text())
        found = []
        for rank in range(2):
            with open(f"{self.folder}/seen-{rank}.json") as file:
                found.append(json.load(file))
        return run.text(), found

    def assert_alike(self, *words):
        text, forked = self.seen(*words)
        self.assertIn("forked 1", text)
        text, started = self.seen(*words, LONGHAUL_FORK_SERVER="0")
        self.assertIn("forked None", text)
        self.maxDiff = None
        for each in range(2):
            self.assertEqual(forked[each], started[each])

    def test_a_forked_script_sees_what_a_started_one_sees(self):
        os.mkdir(f"{self.folder}/code")
        self.write("code/neighbour.py", "VALUE = 7\n")
        self.write("code/train.py", SIGHT)
        for options in ([], ["-u"], ["-OO", "-X", "dev", "-W", "ignore"]):
            with self.subTest(options):
                self.assert_alike(ddp_test.PYTHON, *options, "code/train.py", "x y", "--z")

    def test_a_forked_module_sees_what_a_started_one_sees(self):
        self.write("neighbour.py", "VALUE = 7\n")
        self.write("train.py", SIGHT)
        self.assert_alike(ddp_test.PYTHON, "-m", "train", "x", "--z")

    def test_packages_are_loaded_once_for_all_workers_and_starts(self):
        code, text = self.run_script(
            "import os, useful, sys\n"
            "sys.exit(os.environ['TORCHELASTIC_RESTART_COUNT'] != '2')\n")
        self.assertEqual(code, 0, text)
        self.assertEqual(self.loaded("useful"), [None])

    def test_what_a_worker_loads_later_is_loaded_for_the_next_start(self):
        self.package("late", PACKAGE)
        code, text = self.run_script(
            "import os, time, useful\n"
            "def begin():\n"
            "    import late\n"
            "begin()\n"
            "if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':\n"
            "    deadline = time.monotonic() + 30\n"
            "    def is_loaded():\n"
            "        with open(os.environ['LOADED']) as file:\n"
            "            return any(line.startswith('late ') and 'None' in line for line in file)\n"
            "    while not is_loaded():\n"
            "        assert time.monotonic() < deadline\n"
            "        time.sleep(0.05)\n"
            "    os.kill(os.getpid(), 9)\n")
        self.assertEqual(code, 0, text)
        self.assertEqual(sorted(self.loaded("late"), key=str), [0, 1, None])

    def test_files_of_the_program_are_read_at_each_start(self):
        self.write("own.py", "VERSION = 1\n")
        code, text = self.run_script(
            "import os, sys, useful, own\n"
            "print('own version', own.VERSION, flush=True)\n"
            "if own.VERSION == 1:\n"
            "    if os.environ['RANK'] == '0':\n"
            "        with open('own.py', 'w') as file:\n"
            "            file.write('VERSION = 2222\\n')\n"
            "        sys.exit(1)\n"
            "    import time; time.sleep(60)\n")
        self.assertEqual(code, 0, text)
        self.assertIn("[rank 1] own version 2222", text)

    def test_a_package_that_loads_files_of_the_program_is_left_to_the_workers(self):
        self.package("host", PACKAGE + "import plugin\n")
        self.write("plugin.py", "VERSION = 1\n")
        code, text = self.run_script("import useful, host, os\n"
                                     "print('forked', os.environ['LONGHAUL_FORKED'])\n")
        self.assertEqual(code, 0, text)
        self.assertEqual(sorted(self.loaded("host"), key=str), [0, 1, None])

    def test_a_file_of_the_program_hides_a_package_of_its_name(self):
        self.package("shadowed", "raise RuntimeError('the package was loaded')\n")
        self.write("shadowed.py", "VALUE = 3\n")
        code, text = self.run_script("import useful, shadowed\nprint('value', shadowed.VALUE)\n")
        self.assertEqual(code, 0, text)
        self.assertIn("[rank 1] value 3", text)

    def test_a_package_that_starts_a_thread_or_a_process_is_left_to_the_workers(self):
        self.package("threaded", PACKAGE + "import threading, time\n"
                     "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n")
        self.package("forking", PACKAGE + "import subprocess\n"
                     "subprocess.Popen(['sleep', '600'])\n")
        code, text = self.run_script(
            "import useful, threaded, forking, os, threading\n"
            "print('threads', threading.active_count(), os.environ['LONGHAUL_FORKED'])\n")
        self.assertEqual(code, 0, text)
        self.assertIn("[rank 1] threads 2 1", text)
        for name in ("threaded", "forking"):
            self.assertEqual(sorted(self.loaded(name), key=str), [0, 1, None], name)

    def test_a_package_that_is_left_out_is_tried_once_for_all_of_its_modules(self):
        os.mkdir(f"{self.packages}/outer")
        self.package("outer/__init__", PACKAGE + "import threading, time\n"
                     "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n")
        for name in ("one", "two", "three"):
            self.package(f"outer/{name}", "")
        code, text = self.run_script("import useful, outer.one, outer.two, os\n"
                                     "from outer import three\n"
                                     "print('forked', os.environ['LONGHAUL_FORKED'])\n")
        self.assertEqual(code, 0, text)
        self.assertIn("[rank 1] forked 1", text)
        self.assertEqual(sorted(self.loaded("outer"), key=str), [0, 1, None])

    def test_temporary_files_of_a_package_that_is_left_out_are_removed(self):
        # So does PyTorch 2.4 for torch.distributed.nn, which checkpoints and FSDP import.
        self.package("writing", PACKAGE + "import sys, tempfile\n"
                     "folder = tempfile.TemporaryDirectory()\n"
                     "with open(folder.name + '/made_here.py', 'w') as file:\n"
                     "    file.write('VERSION = 1')\n"
                     "sys.path.append(folder.name)\n"
                     "import made_here\n")
        temporary = f"{self.folder}/temporary"
        os.mkdir(temporary)
        code, text = self.run_script("import useful, writing\n", TMPDIR=temporary)
        self.assertEqual(code, 0, text)
        self.assertEqual(sorted(self.loaded("writing"), key=str), [0, 1, None])
        self.assertEqual(os.listdir(temporary), [])

    def test_without_a_usable_fork_server_workers_are_started(self):
        kinds = {"os.abort()": "abort", "import sys; sys.exit('no licence')": "no licence"}
        for statement, _ in kinds.items():
            with self.subTest(statement):
                self.package("bad", "import os\nif 'RANK' not in os.environ:\n    " + statement)
                code, text = self.run_script("import useful, bad, os\n"
                                             "print('forked', os.environ.get('LONGHAUL_FORKED'))\n")
                self.assertEqual(code, 0, text)
                self.assertIn("[rank 0] longhaul: workers start without a fork server", text)
                self.assertIn("[rank 1] forked None", text)

    def test_a_program_without_packages_is_started_without_a_word(self):
        code, text = self.run_script("import os, json\n"
                                     "print('forked', os.environ.get('LONGHAUL_FORKED'))\n")
        self.assertEqual(code, 0, text)
        self.assertIn("[rank 1] forked None", text)
        self.assertNotIn("fork server", text)

    def test_the_option_and_the_variable_do_without(self):
        script = "import useful, os\nprint('forked', os.environ.get('LONGHAUL_FORKED'))\n"
        for options, environment in ((["--no-fork-server"], {}), ([], {"LONGHAUL_FORK_SERVER": "0"})):
            code, text = self.run_script(script, *options, **environment)
            self.assertEqual(code, 0, text)
            self.assertIn("[rank 1] forked None", text)

    def test_errors_look_as_they_do_without(self):
        script = "import useful\ndef f():\n    raise ValueError('x')\nf()\n"
        texts = []
        for off in ("1", "0"):
            code, text = self.run_script(script, "--procs", "1", "--max-restarts", "0",
                                         LONGHAUL_FORK_SERVER=off)
            self.assertEqual(code, 1, text)
            texts.append([line for line in text.splitlines() if line.startswith("[rank 0]")])
        self.assertEqual(*texts)
        self.assertNotIn("fork server", "".join(texts[0]))
        self.assertEqual(texts[0][-1], "[rank 0] ValueError: x")

    def test_exit_codes_are_those_of_the_program(self):
        for statement, code in (("sys.exit(7)", "code 7"), ("sys.exit('why')", "code 1"),
                                ("os._exit(9)", "code 9"), ("os.kill(os.getpid(), 15)", "signal 15")):
            with self.subTest(statement):
                _, text = self.run_script(f"import os, sys, useful\n{statement}\n",
                                          "--max-restarts", "0")
                self.assertRegex(text, rf"worker \d .*{code}")

    def test_an_upgraded_package_is_loaded_anew(self):
        code, text = self.run_script(
            "import os, sys, time, useful\n"
            "print('version', useful.VERSION, flush=True)\n"
            "if useful.VERSION == 1:\n"
            "    if os.environ['RANK'] == '0':\n"
            "        folder = os.path.dirname(useful.__file__)\n"
            "        with open(folder + '/new', 'w') as file:\n"
            "            file.write('VERSION = 222\\n')\n"
            "        os.replace(folder + '/new', useful.__file__)\n"
            "        sys.exit(1)\n"
            "    time.sleep(60)\n")
        self.assertEqual(code, 0, text)
        self.assertIn("[rank 1] version 222", text)

    def test_a_killed_fork_server_costs_time_only(self):
        self.write("train.py",
                   "import os, time, useful\n"
                   "print('count', os.environ['TORCHELASTIC_RESTART_COUNT'], flush=True)\n"
                   "time.sleep(60 if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0' else 0)\n")
        run = self.begin("--procs", "2", "--", ddp_test.PYTHON, "train.py")
        for _ in range(2):
            run.until(r"^\[rank \d\] count 0")
        self.assertEqual(len(self.servers()), 1)
        os.kill(self.servers().pop(), signal.SIGKILL)
        run.kill_worker(1)
        run.until(r"^\[rank 0\] count 1")
        self.assertEqual(run.end(), 0, run.text())

    def is_titled(self, pid, title):
        try:
            with open(f"/proc/{pid}/cmdline") as file, open(f"/proc/{pid}/environ") as other:
                return file.read().startswith(title) and self.folder in other.read()
        except OSError:
            return False

    def titled(self, title):
        return {pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
                if self.is_titled(pid, title)}

    def servers(self):
        """Without forks that have yet to take a title of their own: they stay in its process group."""
        return {pid for pid in self.titled("longhaul fork server") if self.leads_its_group(pid)}

    @staticmethod
    def leads_its_group(pid):
        try:
            return os.getpgid(pid) == pid
        except ProcessLookupError:
            return False

    def spares(self):
        return self.titled("longhaul spare worker")

    def wait_until(self, holds, text):
        deadline = time.monotonic() + 30
        while not holds():
            self.assertLess(time.monotonic(), deadline, text)
            time.sleep(0.05)

    def begin_with_spares(self, text):
        """A run of two workers, which has two spares."""
        self.write("train.py", text)
        run = self.begin("--procs", "2", "--", ddp_test.PYTHON, "train.py")
        for _ in range(2):
            run.until(r"^\[rank \d\] count 0")
        self.wait_until(lambda: len(self.spares()) == 2, "there are no two spares")
        return run

    COUNT = ("import os, time, useful\n"
             "count = os.environ['TORCHELASTIC_RESTART_COUNT']\n"
             "print('count', count, os.getpid(), flush=True)\n")

    def test_the_next_workers_are_spares(self):
        run = self.begin_with_spares(self.COUNT + "time.sleep(60 if count == '0' else 0)\n")
        spares = self.spares()
        run.kill_worker(1)
        self.assertEqual(run.end(), 0, run.text())
        workers = re.findall(r"^\[rank \d\] count 1 (\d+)", run.text(), re.MULTILINE)
        self.assertEqual({int(each) for each in workers}, spares)
        self.assertEqual(self.loaded("useful"), [None])

    def test_spares_are_used_although_one_has_died(self):
        run = self.begin_with_spares(self.COUNT + "time.sleep(60 if count == '0' else 0)\n")
        dead = self.spares().pop()
        os.kill(dead, signal.SIGKILL)
        self.wait_until(lambda: dead not in self.spares(), "the spare is still there")
        run.kill_worker(1)
        self.assertEqual(run.end(), 0, run.text())
        self.assertEqual(self.loaded("useful"), [None])

    def test_spares_end_with_the_run_and_with_the_fork_server(self):
        run = self.begin_with_spares(self.COUNT + "time.sleep(60 if count == '0' else 0)\n")
        os.kill(self.servers().pop(), signal.SIGKILL)
        self.wait_until(lambda: not self.spares(), "a spare has outlived the fork server")
        run.kill_worker(0)
        self.assertEqual(run.end(), 0, run.text())
        run = self.begin_with_spares(self.COUNT + "time.sleep(60)\n")
        run.child.send_signal(signal.SIGINT)
        run.end()
        self.assertEqual(self.spares() | self.servers(), set())

    def test_spares_have_what_workers_have_loaded_since(self):
        self.package("late", PACKAGE)
        run = self.begin_with_spares(
            self.COUNT +
            "while not os.path.exists('go'):\n"
            "    time.sleep(0.02)\n"
            "def load():\n"
            "    import late\n"
            "load()\n"
            "time.sleep(60 if count == '0' else 0)\n")
        spares = self.spares()
        self.write("go", "")
        self.wait_until(lambda: len(self.spares() - spares) == 2, "the spares are the old ones")
        run.kill_worker(1)
        self.assertEqual(run.end(), 0, run.text())
        self.assertEqual(sorted(self.loaded("late"), key=str), [0, 1, None])

    def test_the_next_fork_server_loads_what_workers_have_loaded_since(self):
        self.package("late", PACKAGE)
        run = self.begin_with_spares(
            self.COUNT +
            "def load():\n"
            "    import late\n"
            "load()\n"
            "time.sleep(60 if count == '0' else 0)\n")
        self.wait_until(lambda: self.loaded("late").count(None) == 1, "it is not loaded")
        remembered = f"{self.folder}/runs/train/logs/fork-server.modules"
        self.wait_until(lambda: os.path.exists(remembered), "it is not remembered")
        os.kill(self.servers().pop(), signal.SIGKILL)
        self.wait_until(lambda: not self.servers(), "the fork server is still there")
        run.kill_worker(0)
        self.assertEqual(run.end(), 0, run.text())
        self.assertEqual(sorted(self.loaded("late"), key=str), [0, 1, None, None])

    def test_a_fork_server_loads_what_a_worker_of_another_node_has_loaded(self):
        self.package("late", PACKAGE)
        self.write("train.py", self.COUNT +
                   "def load():\n"
                   "    import late\n"
                   "if os.environ['RANK'] == '0':\n"
                   "    load()\n"
                   "time.sleep(60)\n")
        run = self.begin("--nodes", "2", "--", ddp_test.PYTHON, "train.py")
        run.until(r"^\[rank \d\] count 0")
        self.wait_until(lambda: self.loaded("late").count(None) == 2,
                        "only one of two fork servers has loaded it")
        run.child.send_signal(signal.SIGINT)
        run.end()
        with open(f"{self.folder}/runs/train/logs/fork-server.modules") as file:
            self.assertEqual(file.read().split().count("late"), 1)

    def test_each_worker_has_random_numbers_of_its_own(self):
        os.makedirs(f"{self.packages}/numpy")
        for name, text in (("__init__", "from numpy import random\n"),
                           ("random", "import random as python\n"
                                      "state = python.random()\n"
                                      "def seed():\n"
                                      "    global state\n"
                                      "    state = python.random()\n")):
            self.package(f"numpy/{name}", text)
        code, text = self.run_script(
            "import numpy, random\nprint('numbers', numpy.random.state, random.random())\n")
        self.assertEqual(code, 0, text)
        found = re.findall(r"numbers (\S+) (\S+)", text)
        self.assertEqual(len({number for both in found for number in both}), 4, found)

    def test_processes_that_escape_from_a_forked_worker_are_killed(self):
        self.write("train.py",
                   "import os, sys, time, useful\n"
                   "reader, writer = os.pipe()\n"
                   "if os.fork() == 0:\n"
                   "    os.setsid()\n"
                   "    if os.fork() == 0:\n"
                   "        os.write(writer, str(os.getpid()).encode())\n"
                   "        time.sleep(600)\n"
                   "    os._exit(0)\n"
                   "print('escaped', os.read(reader, 20).decode(), flush=True)\n")
        run = self.begin("--", ddp_test.PYTHON, "train.py")
        self.assertEqual(run.end(), 0, run.text())
        escaped = int(re.search(r"escaped (\d+)", run.text())[1])
        deadline = time.monotonic() + 20
        while os.path.exists(f"/proc/{escaped}"):
            self.assertLess(time.monotonic(), deadline, "the process is still there")
            time.sleep(0.05)

    def test_what_a_program_starts_works_in_a_forked_worker(self):
        code, text = self.run_script(
            "import multiprocessing, os, random, subprocess, sys, useful\n"
            "def double(x):\n"
            "    return 2 * x\n"
            "if __name__ == '__main__':\n"
            "    for method in ('spawn', 'fork', 'forkserver'):\n"
            "        with multiprocessing.get_context(method).Pool(2) as pool:\n"
            "            assert pool.map(double, [1, 2]) == [2, 4]\n"
            "    rank = subprocess.run([sys.executable, '-c', 'import os; print(os.environ[\"RANK\"])'],\n"
            "                          capture_output=True, text=True).stdout.strip()\n"
            "    assert rank == os.environ['RANK'], rank\n"
            "    print('random', random.random(), flush=True)\n")
        self.assertEqual(code, 0, text)
        self.assertEqual(len(set(re.findall(r"random (\S+)", text))), 2, "each has its own seed")


if __name__ == "__main__":
    sys.longhaul = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
