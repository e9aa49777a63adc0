"""A proxy in front of kube-apiserver that refuses calls, loses answers and breaks watches.

The client talks to the proxy, which has the server's own certificate. What is not refused reaches
the real server, so that its answers, conflicts and watches are the real ones.
"""

import http.client
import http.server
import json
import pathlib
import ssl
import threading

from api_server import TOKEN
from free_ports import free_ports

REASONS = {409: "Conflict", 429: "TooManyRequests", 500: "InternalError"}
HOP_HEADERS = {"connection", "host", "transfer-encoding", "content-length", "keep-alive"}


class Faults:
    """Which calls go wrong, by a random generator; counts them. Nothing does once `calm`."""

    def __init__(self, rng):
        self.rng, self.lock, self.calm = rng, threading.Lock(), False
        self.counts = {"lost": 0, "watch": 0, **{code: 0 for code in REASONS}}

    def draw(self, writes, is_watch):
        """None, a status to refuse with, "lost", or for a watch the number of reads until it breaks."""
        with self.lock:
            if self.calm or self.rng.random() > (0.3 if writes else 0.5 if is_watch else 0.1):
                return None
            if is_watch and self.rng.random() < 0.8:
                self.counts["watch"] += 1
                return self.rng.randint(1, 20)
            kinds = [409, 429, 500, "lost"] if writes else [429, 500]
            kind = self.rng.choice(kinds)
            self.counts[kind] += 1
            return kind


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60

    def log_message(self, *unused):
        pass

    def handle(self):
        try:
            super().handle()
        except (OSError, http.client.HTTPException):
            pass  # the client or the server has gone
        finally:
            if hasattr(self, "upstream"):
                self.upstream.close()

    def refuse(self, code):
        body = json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                           "reason": REASONS[code], "message": "refused by the proxy"}).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if code == 429:
            self.send_header("Retry-After", "1")
        self.end_headers()
        self.wfile.write(body)

    def forward(self, body):
        if not hasattr(self, "upstream"):
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            self.upstream = http.client.HTTPSConnection("127.0.0.1", self.server.upstream_port,
                                                        context=context, timeout=60)
        headers = {name: value for name, value in self.headers.items()
                   if name.lower() not in HOP_HEADERS}
        self.upstream.request(self.command, self.path, body=body, headers=headers)
        return self.upstream.getresponse()

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
        is_watch = "watch=" in self.path
        fault = self.server.faults.draw(self.command in ("POST", "PATCH", "DELETE", "PUT"), is_watch)
        if fault in REASONS:
            self.refuse(fault)
            return
        response = self.forward(body)
        if fault == "lost":
            response.read()
            self.close_connection = True  # the server has done it, and the client does not know
            return
        self.send_response(response.status)
        for name, value in response.getheaders():
            if name.lower() not in HOP_HEADERS:
                self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while chunk := response.read1(1 << 16):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            if is_watch and fault is not None:
                fault -= 1
                if fault == 0:
                    self.close_connection = True
                    self.upstream.close()
                    return
        self.wfile.write(b"0\r\n\r\n")

    do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = answer


class FaultyProxy(http.server.ThreadingHTTPServer):
    """As a context manager; `kubeconfig` is the path for a client."""

    daemon_threads = True

    def __init__(self, server, rng):
        port, = free_ports(1)
        super().__init__(("127.0.0.1", port), Handler)
        self.upstream_port, self.faults = server.port, Faults(rng)
        certificates = pathlib.Path(server.folder) / "certificates"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates / "apiserver.crt", certificates / "apiserver.key")
        # The handshake is the handler's: a client that is slow to begin it holds nobody up.
        self.socket = context.wrap_socket(self.socket, server_side=True,
                                          do_handshake_on_connect=False)
        self.kubeconfig = pathlib.Path(server.folder) / f"kubeconfig-{port}"
        server.write_kubeconfig(self.kubeconfig, TOKEN)
        text = self.kubeconfig.read_text().replace(f":{server.port}\"", f":{port}\"")
        self.kubeconfig.write_text(text)

    def handle_error(self, *unused):
        pass  # a connection that broke

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *unused):
        self.shutdown()
        self.server_close()
