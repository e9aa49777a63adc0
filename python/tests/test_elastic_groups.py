"""How the connections of torch.distributed groups are ended (longhaul._elastic_groups)."""

import socket
import unittest

from longhaul._elastic_groups import Groups


class Break(unittest.TestCase):
    def setUp(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(self.listener.close)

    def connect(self):
        one = socket.create_connection(self.listener.getsockname())
        other, _ = self.listener.accept()
        self.addCleanup(one.close)
        self.addCleanup(other.close)
        return one, other

    def test_both_processes_read_the_end_and_can_still_write(self):
        """Gloo blocks if a write fails with EPIPE before it has read the connection's end."""
        groups = Groups()
        with groups.forming():
            one, other = self.connect()
        groups.break_all()
        self.assertEqual([each.recv(1) for each in (one, other)], [b"", b""])
        for connection in (one, other, one, other):
            connection.sendall(b"message")

    def test_other_connections_and_listening_sockets_stay(self):
        groups = Groups()
        before, peer = self.connect()
        with groups.forming():
            listener = socket.create_server(("127.0.0.1", 0))
            self.addCleanup(listener.close)
        groups.break_all()
        peer.sendall(b"x")
        self.assertEqual(before.recv(1), b"x")
        socket.create_connection(listener.getsockname()).close()
        listener.accept()[0].close()


if __name__ == "__main__":
    unittest.main()
