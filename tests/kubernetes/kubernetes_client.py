"""A client of the test's API server that keeps its connection, and can follow a watch.

ApiServer.send opens a connection for each request. This is for those who send many.
"""

import http.client
import json
import socket
import ssl

from api_server import TOKEN

REQUEST_SECONDS = 10
WATCH_SECONDS = 90  # an idle watch sends a bookmark about once a minute


class Unavailable(Exception):
    """The server cannot be reached or is overloaded: the request can be repeated."""


class Refused(Exception):
    """The server refuses the request; repeating it does not help."""

    def __init__(self, status, message):
        super().__init__(f"{status}: {message}")
        self.status = status


def connect(server, seconds):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection("127.0.0.1", server.port, context=context, timeout=seconds)


class Client:
    """Sends requests one after the other. Each thread uses a client of its own."""

    def __init__(self, server):
        self.server = server
        self.connection = None

    def close(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None

    def call(self, method, path, body=None, content_type="application/json"):
        """The object of the answer. Raises Unavailable or Refused."""
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": content_type}
        text = None if body is None else json.dumps(body)
        # The server may have closed a kept connection: a new one is tried before giving up.
        for is_kept in ([True, False] if self.connection is not None else [False]):
            if self.connection is None:
                self.connection = connect(self.server, REQUEST_SECONDS)
            try:
                self.connection.request(method, path, text, headers)
                response = self.connection.getresponse()
                answer = json.loads(response.read())
                break
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.close()
                if not is_kept:
                    raise Unavailable(f"{method} {path}: {error}") from error
        if response.status == 429 or response.status >= 500:
            raise Unavailable(f"{method} {path}: {response.status}")
        if response.status >= 300:
            raise Refused(response.status, answer.get("message", ""))
        return answer


class Watch:
    """The events of one watch; `close` may be called by another thread and ends it."""

    def __init__(self, server, path):
        self.connection = connect(server, WATCH_SECONDS)
        self.path = path
        self.is_closed = False

    def events(self):
        """Yields the events until the stream ends. Raises Unavailable when it breaks."""
        try:
            self.connection.connect()
            if self.is_closed:
                return
            self.connection.request("GET", self.path,
                                    headers={"Authorization": f"Bearer {TOKEN}"})
            response = self.connection.getresponse()
            if response.status != 200:
                raise Unavailable(f"GET {self.path}: {response.status}")
            while line := response.readline():
                yield json.loads(line)
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            # An AttributeError is what http.client raises when the socket is closed under it.
            raise Unavailable(f"GET {self.path}: {error}") from error
        finally:
            self.connection.close()

    def close(self):
        self.is_closed = True
        try:
            if self.connection.sock is not None:
                self.connection.sock.shutdown(socket.SHUT_RDWR)
        except (OSError, AttributeError):
            pass  # it is closed already
