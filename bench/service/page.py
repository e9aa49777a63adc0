#!/usr/bin/env python3
"""The web page with 5,000 nodes and a run of 16,384 ranks: its first view, its updates, its cost.

    ninja -C build/release longhaul fleet_bench
    apt-get install chromium            and Node 20.19 with npm
    bench/service/page.py

The controller is real, and so are the connections and decisions of the agents; the workers are
answers of one process (src/service/controller/agents/fleet_bench.cc), and do a step each second.
Nodes without an agent are in the cluster file only.

  first view  from the start of the navigation until the view's data are drawn, with a session, in
              headless Chromium
  task        of the page's main thread while it follows the run or the cluster: script, style,
              layout and paint; and the processor time of its scripts
  viewer      processor time of the controller, with the requests and streams of so many viewers
              and without them, as a share of one core for each

Agents, controller, browser and viewers share the machine's cores.
"""
import argparse
import asyncio
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import fleet

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/page"))
import web_environment  # noqa: E402


class Viewer:
    """The requests of one open page, without a browser."""

    def __init__(self, rest, token, view, job):
        self.host, port = rest.removeprefix("http://").split(":")
        self.port, self.token, self.view, self.job = int(port), token, view, job
        self.received = 0

    async def send(self, path):
        reader, writer = await asyncio.open_connection(self.host, self.port, limit=1 << 24)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nAuthorization: "
                     f"Bearer {self.token}\r\nConnection: close\r\nAccept-Encoding: gzip\r\n\r\n"
                     .encode())
        return reader, writer

    async def get(self, path):
        reader, writer = await self.send(path)
        answer = await reader.read()
        writer.close()
        if b" 200 " not in answer[:20]:
            raise SystemExit(f"{path}: {answer[:200]!r}")
        self.received += len(answer)

    async def follow(self):
        reader, _ = await self.send(f"/v1/jobs/{self.job}/events?view=true")
        while chunk := await reader.read(1 << 16):
            self.received += len(chunk)
        raise SystemExit("the stream of a viewer has ended")

    async def repeat(self, path, period):
        while True:
            await self.get(path)
            await asyncio.sleep(period)

    async def run(self):
        """The periods of web/src/transport.ts and cluster_store.ts."""
        if self.view == "cluster":
            await self.repeat("/v1/view/cluster", 3)
        await self.get(f"/v1/view/run/{self.job}")
        await asyncio.gather(self.follow(), self.repeat("/v1/view/runs", 10),
                             self.repeat(f"/v1/view/run/{self.job}?series=false", 5))


async def watch(viewers, settle, seconds, pid):
    """Processor seconds of `pid` while the viewers follow, and the bytes that they received."""
    tasks = [asyncio.create_task(viewer.run()) for viewer in viewers]
    await asyncio.sleep(settle)
    before, begin = fleet.processor_seconds(pid), time.monotonic()
    received = sum(viewer.received for viewer in viewers)
    await asyncio.sleep(seconds)
    used = (fleet.processor_seconds(pid) - before) / (time.monotonic() - begin)
    for task in tasks:
        if task.done():
            task.result()
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return used, (sum(viewer.received for viewer in viewers) - received) / seconds


def cost_of_viewers(arguments, endpoint, token, job, pid):
    """For each view the share of a core, and the bytes a second, of one viewer."""
    found = {}
    for view in ("run", "cluster"):
        without, _ = asyncio.run(watch([], 0, arguments.seconds, pid))
        viewers = [Viewer(endpoint["rest"], token, view, job) for _ in range(arguments.viewers)]
        used, received = asyncio.run(watch(viewers, 3, arguments.seconds, pid))
        found[view] = {"without_cores": without,
                       "viewer_core_share": (used - without) / arguments.viewers,
                       "viewer_bytes_per_second": received / arguments.viewers}
    return found


def times_of_page(arguments, folder, address):
    packages = web_environment.packages(arguments.packages)
    shutil.copy(ROOT / "bench/service/page_view.mjs", packages)
    done = subprocess.run(
        ["node", "page_view.mjs", web_environment.require_chromium(), address,
         f"{arguments.nodes:,} nodes", str(arguments.seconds), str(folder)],
        cwd=packages, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    found = json.loads(done.stdout)
    for view in found.values():
        tasks = view.pop("tasks")
        for kind in ("task", "script"):
            values = sorted(task[kind] for task in tasks)
            view[f"{kind}_p99_ms"] = values[int(0.99 * (len(values) - 1))]
            view[f"{kind}_most_ms"] = values[-1]
        view["tasks"] = len(tasks)
    return found


def write_cluster(arguments, folder):
    """Ten nodes on each leaf."""
    (folder / "cluster.yaml").write_text(json.dumps({
        "levels": ["leaf"], "models": {"CPU": {"memory": "1GiB"}},
        "kinds": {"host": {"model": "CPU", "devices": arguments.slots, "cpu": arguments.slots,
                           "memory": "64GiB"}},
        "nodes": [{"kind": "host", "each": {"leaf": arguments.nodes // 10}, "hosts": 10}]}))
    (folder / "controller.yaml").write_text("cluster: cluster.yaml\n")


def measure(arguments, folder, controller):
    path = folder / "state/endpoint.json"
    agents = fleet.Fleet(arguments.fleet, path, arguments.slots)
    try:
        agents.say(f"connect 1 {arguments.agents}")
        agents.wait("connected", arguments.agents)
        (folder / "job.yaml").write_text(json.dumps({
            "name": "page", "command": ["train"],
            "resources": {"nodes": arguments.agents, "processes_per_node": arguments.slots}}))
        fleet.ask(arguments, folder, "submit", "job.yaml", "--run-directory", f"{folder}/run")
        agents.wait("started", 1, arguments.agents)
        agents.say("step 1000")
        time.sleep(10)
        job = json.loads(fleet.ask(arguments, folder, "status", "page", "--json"))
        if job.get("step", 0) < 3:
            raise SystemExit(f"the run does no steps: {json.dumps(job)[:500]}")
        address = fleet.ask(arguments, folder, "page").split()[-1]
        views = times_of_page(arguments, folder, address)
        token = (folder / "state/token").read_text().strip()
        cost = cost_of_viewers(arguments, json.loads(path.read_text()), token, job["job"]["id"],
                               controller.pid)
        return {view: {**views[view], **cost[view]} for view in views}
    finally:
        agents.close()


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longhaul", default=f"{ROOT}/build/release/src/bin/longhaul")
    parser.add_argument("--fleet", default=f"{ROOT}/build/release/src/service/fleet_bench")
    parser.add_argument("--nodes", type=int, default=5000, help="a multiple of 10 (5,000)")
    parser.add_argument("--agents", type=int, default=2048)
    parser.add_argument("--slots", type=int, default=8, help="workers of an agent (8)")
    parser.add_argument("--viewers", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=20, help="of each measurement (20)")
    parser.add_argument("--packages", default=f"{ROOT}/build/page_packages",
                        help="folder for the packages of npm, kept")
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="page-"))
    load = os.getloadavg()
    write_cluster(arguments, folder)
    result = fleet.with_controller(arguments, folder, measure)
    if arguments.json:
        print(json.dumps({**result, "load_average_before": load}, indent=1))
        return
    print(f"{arguments.nodes:,} nodes, {arguments.agents * arguments.slots:,} ranks, "
          f"{os.cpu_count()} cores, load average {load[0]:.1f} before")
    rows = [("first view", "first_view_ms", 1, "ms", "1,000"),
            ("longest task of an update", "task_most_ms", 1, "ms", ""),
            ("its scripts, longest", "script_most_ms", 1, "ms", "16"),
            ("its scripts, p99", "script_p99_ms", 1, "ms", ""),
            ("controller, one viewer", "viewer_core_share", 100, "% of a core", "5"),
            ("controller, without viewers", "without_cores", 100, "% of a core", ""),
            ("received by one viewer", "viewer_bytes_per_second", 1e-3, "kB/s", "")]
    print(f"{'':30}{'run':>10}{'cluster':>10}")
    for name, key, factor, unit, goal in rows:
        values = "".join(f"{factor * result[view][key]:10.2f}" for view in ("run", "cluster"))
        print(f"{name:30}{values} {unit}{f', goal {goal}' if goal else ''}")


if __name__ == "__main__":
    sys.exit(main())
