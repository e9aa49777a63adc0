#!/usr/bin/env python3
"""How long REST takes to answer while others hold connections that never send a whole request.

    python3 bench/service/connections.py [--longhaul PROGRAM] [--counts 0,1000,5000]

Starts a controller, opens so many connections to it from one address, and times requests with the
token, each on a connection of its own. The connections send nothing (idle), or a header a byte a
second (drip). One that the controller closes is opened again at once, as an attacker would.
"""
import argparse
import json
import os
import resource
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HEADER = b"GET /v1/jobs HTTP/1.1\r\nX-Filler: " + b"x" * 100_000


class Holder(threading.Thread):
    """Keeps `count` connections open, and dripping if wanted, until told to end."""

    def __init__(self, address, count, drip):
        super().__init__(daemon=True)
        self.address, self.count, self.drip = address, count, drip
        self.opened = self.closed = 0
        self.full, self.over = threading.Event(), threading.Event()

    def run(self):
        selector = selectors.DefaultSelector()

        def open_one():
            try:
                held = socket.create_connection(self.address)
            except OSError:
                return
            held.setblocking(False)
            selector.register(held, selectors.EVENT_READ, [0])
            self.opened += 1

        for _ in range(self.count):
            open_one()
        self.full.set()
        sent_at = 0.0
        while not self.over.is_set():
            for key, _ in selector.select(0.05):
                try:
                    if key.fileobj.recv(4096):
                        continue
                except BlockingIOError:
                    continue
                except OSError:
                    pass
                selector.unregister(key.fileobj)
                key.fileobj.close()
                self.closed += 1
                open_one()
            if self.drip and time.monotonic() - sent_at > 1:
                sent_at = time.monotonic()
                for key in list(selector.get_map().values()):
                    try:
                        key.fileobj.send(HEADER[key.data[0]:key.data[0] + 1])
                        key.data[0] += 1
                    except OSError:
                        pass
        for key in list(selector.get_map().values()):
            key.fileobj.close()


def measure(rest, token, count, drip, requests):
    host, port = rest.removeprefix("http://").split(":")
    holder = Holder((host, int(port)), count, drip)
    holder.start()
    holder.full.wait(30)
    seconds, failed = [], 0
    for _ in range(requests):
        request = urllib.request.Request(rest + "/v1/jobs",
                                         headers={"Authorization": "Bearer " + token})
        begin = time.monotonic()
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                answer.read()
        except OSError:
            failed += 1
        seconds.append(time.monotonic() - begin)
    holder.over.set()
    holder.join()
    return {"connections": count, "kind": "drip" if drip else "idle", "requests": requests,
            "failed": failed, "median_ms": round(1e3 * statistics.median(seconds), 2),
            "max_ms": round(1e3 * max(seconds), 2), "closed_and_opened_again": holder.closed}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--longhaul", default=os.path.join(ROOT, "build/release/src/bin/longhaul"))
    parser.add_argument("--counts", default="0,1000,5000")
    parser.add_argument("--requests", type=int, default=20)
    arguments = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with tempfile.TemporaryDirectory() as folder:
        controller = subprocess.Popen(
            [arguments.longhaul, "controller", "--state-dir", folder], stdout=subprocess.PIPE,
            text=True)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        try:
            controller.stdout.readline()
            with open(folder + "/endpoint.json") as file:
                rest = json.load(file)["rest"]
            with open(folder + "/token") as file:
                token = file.read().strip()
            print(f"descriptors that the controller may open: {before[0]}")
            for count in map(int, arguments.counts.split(",")):
                for drip in ([False, True] if count else [False]):
                    print(json.dumps(measure(rest, token, count, drip, arguments.requests)),
                          flush=True)
            with open(f"/proc/{controller.pid}/status") as file:
                print(*(line.strip() for line in file if line.startswith(("VmHWM", "Threads"))))
        finally:
            controller.terminate()
            controller.wait()


if __name__ == "__main__":
    sys.exit(main())
