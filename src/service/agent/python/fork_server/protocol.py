"""The requests of the agent, as worker_api/fork_server.h describes them.
"""

import array
import os
import socket
import struct

from .loader import Unusable

MAGIC, VERSION = 0x4D52574C, 1
REQUEST, REPLY = struct.Struct("<IIQII"), struct.Struct("<IIQq")
MOST_BYTES = 128 * 1024


def receive(connection):
    """A request and its descriptors; None when the agent has closed its end."""
    size = array.array("i").itemsize
    packet, ancillary, flags, _ = connection.recvmsg(MOST_BYTES, socket.CMSG_SPACE(2 * size))
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[:len(data) - len(data) % size])
    if not packet:
        return None
    return packet, list(descriptors)


def parse(packet):
    """The number, the environment and the words of a request."""
    magic, version, number, variables, words = REQUEST.unpack_from(packet)
    if magic != MAGIC or version != VERSION:
        raise Unusable("a request of another build")
    texts = os.fsdecode(packet[REQUEST.size:]).split("\0")
    if len(texts) != variables + words + 1:
        raise Unusable("a request was cut")
    environment = dict(text.split("=", 1) for text in texts[:variables])
    return number, environment, texts[variables:-1]
