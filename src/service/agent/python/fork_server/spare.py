"""Spares: forks that wait to be told which worker they are.
"""

import array
import os
import signal
import socket

from .protocol import parse, receive
from .worker import become_child, become_worker, set_title

ANSWER_SECONDS = 5


class Spare:
    """A fork that has yet to be told which worker it is. It stays in the process group of the fork
    server until then, by which the agent ends it."""

    def __init__(self, process, link):
        self.process, self.link = process, link

    def use(self, packet, descriptors):
        """Whether it is a worker now."""
        try:
            self.link.settimeout(ANSWER_SECONDS)
            rights = array.array("i", descriptors)
            self.link.sendmsg([packet], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            return bool(self.link.recv(1))
        except OSError:
            os.kill(self.process, signal.SIGKILL)  # it must not become a worker later
            return False
        finally:
            self.link.close()


def live_as_spare(server, link):
    """Returns the words of the worker that it becomes."""
    become_child(server)
    set_title(["longhaul spare worker"])
    received = receive(link)
    if received is None:
        os._exit(0)
    os.setsid()
    link.send(b"1")
    link.close()
    request = parse(received[0])
    become_worker(server, request, received[1])
    return request[2]
