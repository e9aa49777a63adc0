"""A PostgreSQL server for tests, on a socket in a folder of its own, and a proxy that can be cut."""
import glob
import os
import pwd
import selectors
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time


def programs():
    """The folder of initdb and postgres; None where they are not installed."""
    found = shutil.which("postgres")
    folders = [os.path.dirname(os.path.realpath(found))] if found else []
    folders += sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
    for folder in folders:
        if all(os.access(f"{folder}/{name}", os.X_OK) for name in ("initdb", "postgres")):
            return folder
    return None


def missing():
    """Why the server cannot run here; None if it can."""
    if programs() is None:
        return "PostgreSQL is not installed (Debian: apt install postgresql-15)"
    if os.geteuid() == 0:
        try:
            pwd.getpwnam("postgres")
        except KeyError:
            return "PostgreSQL does not run as root, and there is no user postgres"
    return None


class Server:
    """Makes a database cluster and serves it until `close`, with fsync."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="longhaul-postgres-")
        self.user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        account = pwd.getpwnam(self.user)
        os.chown(self.folder, account.pw_uid, account.pw_gid)
        self.data = f"{self.folder}/data"
        # Only the making goes without a sync.
        self._call("initdb", "--no-sync", "--auth=trust", f"--username={self.user}", "--locale=C",
                   "--encoding=UTF8", "-D", self.data)
        self.process = None
        self.start()
        self._query("CREATE DATABASE longhaul", "postgres")

    def _command(self, name, *arguments):
        command = [f"{programs()}/{name}", *arguments]
        if os.geteuid() != 0:
            return command
        return ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--init-groups",
                *command]

    def _call(self, name, *arguments):
        done = subprocess.run(self._command(name, *arguments), capture_output=True, text=True,
                              cwd=self.folder, timeout=120)
        if done.returncode != 0:
            raise RuntimeError(f"{name}: {done.stdout}{done.stderr}")
        return done.stdout

    def _query(self, sql, database):
        return self._call("psql", "-h", self.folder, "-U", self.user, "-d", database, "-At", "-c",
                          sql)

    def start(self):
        with open(f"{self.folder}/server.log", "a") as log:
            self.process = subprocess.Popen(
                self._command("postgres", "-D", self.data, "-k", self.folder, "-c",
                              "listen_addresses=", "-c", "fsync=on", "-c", "max_connections=40"),
                cwd=self.folder, stdout=log, stderr=log)
        until = time.monotonic() + 60
        while True:
            try:
                self._query("SELECT 1", "postgres")
                return
            except RuntimeError:
                if time.monotonic() > until or self.process.poll() is not None:
                    raise
                time.sleep(0.05)

    def stop(self, number=signal.SIGINT):
        """SIGINT ends all sessions and then the server, SIGQUIT ends it as a crash does."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(timeout=60)

    def close(self):
        self.stop(signal.SIGQUIT)  # without writing what is removed anyway
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def socket(self):
        return f"{self.folder}/.s.PGSQL.5432"

    def address(self, proxy=None, database="longhaul"):
        """What `--log` takes, through the proxy if there is one."""
        host = f"/{database}?host={self.folder}"
        if proxy is not None:
            host = f"127.0.0.1:{proxy.port}/{database}?sslmode=disable"
        return f"postgresql://{host}&user={self.user}"

    def sql(self, query, database="longhaul"):
        return self._query(query, database).strip()


class Proxy:
    """Forwards TCP connections to the server's socket until they are cut.

    While it is cut nothing passes in either direction and connections stay open, as when a switch
    fails: neither side gets an error.
    """

    def __init__(self, target):
        self.target = target
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.pairs = {}
        self.is_cut = False
        self.closing = False
        self.lock = threading.Lock()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def cut(self):
        with self.lock:
            self.is_cut = True

    def heal(self):
        with self.lock:
            self.is_cut = False

    def close(self):
        self.closing = True
        self.thread.join()
        for each in [self.listener, *self.pairs]:
            each.close()

    def _run(self):
        selector = selectors.DefaultSelector()
        selector.register(self.listener, selectors.EVENT_READ)
        while not self.closing:
            with self.lock:
                is_cut = self.is_cut
            if is_cut:
                time.sleep(0.01)
                continue
            for key, _ in selector.select(0.02):
                with self.lock:
                    if self.is_cut:
                        break
                self._serve(selector, key.fileobj)

    def _serve(self, selector, source):
        if source is self.listener:
            client, _ = self.listener.accept()
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(self.target)
            except OSError:
                client.close()
                return
            self.pairs[client], self.pairs[server] = server, client
            selector.register(client, selectors.EVENT_READ)
            selector.register(server, selectors.EVENT_READ)
            return
        if source not in self.pairs:
            return
        try:
            data = source.recv(65536)
            if data:
                self.pairs[source].sendall(data)
                return
        except OSError:
            pass
        for end in (source, self.pairs[source]):
            selector.unregister(end)
            del self.pairs[end]
            end.close()
