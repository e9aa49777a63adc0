"""Ports of this machine for servers of tests that cannot choose one by themselves."""
import socket


def free_ports(count):
    """Ports that are free now. All are held until all are known, so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
