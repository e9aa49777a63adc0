"""Free ports of this machine, for tests of servers whose port must be chosen before they start."""
import random
import socket

# Linux takes the local ports of outgoing connections from a range that begins above these
# (net.ipv4.ip_local_port_range), so that a port stays free until its server starts.
FIRST, LAST = 15_000, 29_999
_given = set()  # by this process
_generator = random.SystemRandom()  # tests that run at the same time differ


def free_ports(count):
    """Ports that no program of this machine used a moment ago; they differ from each other."""
    found = []
    while len(found) < count:
        port = _generator.randint(FIRST, LAST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in _given:
            _given.add(port)
            found.append(port)
    return found
