"""A small object store for tests: the subset of S3 that checkpoints need, over http.server.

It checks every signature (AWS Signature Version 4) by itself, from the published description and
with nothing of ours, and every body against its signed SHA-256. Objects live in a dictionary.
"""
import datetime
import hashlib
import hmac
import http.server
import os
import re
import threading
import urllib.parse
from xml.sax.saxutils import escape, unescape


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def encoded(text, safe="-_.~"):
    return urllib.parse.quote(text, safe=safe)


class Store(http.server.ThreadingHTTPServer):
    """Serves on a free port of 127.0.0.1 until `close`."""

    daemon_threads = True

    def __init__(self, access_key, secret_key, region="us-east-1"):
        super().__init__(("127.0.0.1", 0), Handler)
        self.access_key, self.secret_key, self.region = access_key, secret_key, region
        self.objects = {}  # "bucket/key" -> bytes
        self.uploads = {}  # id -> (name, {number: bytes})
        self.requests = []  # (method, path)
        self.refused = 0
        self.lock = threading.Lock()
        self.thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def close(self):
        self.shutdown()
        self.server_close()
        self.thread.join()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if not any(name == "Content-Length" for name, _ in headers):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, code):
        self.server.refused += status == 403
        self.answer(status, f"<Error><Code>{code}</Code><Message>refused</Message></Error>".encode())

    def why_not_signed(self, body):
        """The published steps one by one; empty when the signature is right."""
        match = re.fullmatch(
            r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request, ?"
            r"SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})",
            self.headers.get("Authorization", ""))
        if not match:
            return "AccessDenied"
        key_id, day, region, names, signature = match.groups()
        if key_id != self.server.access_key or region != self.server.region:
            return "InvalidAccessKeyId"
        stamp = self.headers.get("x-amz-date", "")
        now = datetime.datetime.now(datetime.timezone.utc)
        asked = datetime.datetime.strptime(stamp + "+0000", "%Y%m%dT%H%M%SZ%z")
        if not stamp.startswith(day) or abs((now - asked).total_seconds()) > 900:
            return "RequestTimeTooSkewed"
        if {"host", "x-amz-date", "x-amz-content-sha256"} - set(names.split(";")):
            return "AccessDenied"
        if self.headers["x-amz-content-sha256"] != sha256(body):
            return "XAmzContentSHA256Mismatch"
        parts = urllib.parse.urlsplit(self.path)
        query = "&".join(sorted(
            f"{encoded(name)}={encoded(value)}"
            for name, value in urllib.parse.parse_qsl(parts.query, keep_blank_values=True)))
        lines = "".join(f"{name}:{' '.join(self.headers[name].split())}\n"
                        for name in names.split(";"))
        canonical = "\n".join([self.command, encoded(urllib.parse.unquote(parts.path), "/-_.~"),
                               query, lines, names, sha256(body)])
        scope = f"{day}/{region}/s3/aws4_request"
        to_sign = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, sha256(canonical.encode())])
        key = ("AWS4" + self.server.secret_key).encode()
        for word in (day, region, "s3", "aws4_request"):
            key = hmac.new(key, word.encode(), hashlib.sha256).digest()
        wanted = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
        return "" if hmac.compare_digest(wanted, signature) else "SignatureDoesNotMatch"

    def serve(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        why = self.why_not_signed(body)
        if why:
            return self.refuse(403, why)
        parts = urllib.parse.urlsplit(self.path)
        name = urllib.parse.unquote(parts.path)[1:]
        query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
        with self.server.lock:
            self.server.requests.append((self.command, self.path))
            if query.get("list-type") == "2":
                return self.list(name, query)
            if "uploads" in query or "uploadId" in query:
                return self.parts(name, query, body)
            if self.command == "PUT":
                self.server.objects[name] = body
                return self.answer(200, headers=[("ETag", f'"{sha256(body)[:32]}"')])
            if self.command == "DELETE":
                self.server.objects.pop(name, None)
                return self.answer(204)
            return self.read(name)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = serve

    def read(self, name):
        if name not in self.server.objects:
            return self.refuse(404, "NoSuchKey")
        data = self.server.objects[name]
        tag = f'"{sha256(data)[:32]}"'
        if self.headers.get("If-Match", tag) != tag:
            return self.refuse(412, "PreconditionFailed")
        status, headers = 200, [("ETag", tag)]
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if wanted:
            begin, end = int(wanted[1]), min(int(wanted[2]), len(data) - 1)
            if begin >= len(data):
                return self.refuse(416, "InvalidRange")
            status = 206
            headers.append(("Content-Range", f"bytes {begin}-{end}/{len(data)}"))
            data = data[begin:end + 1]
        headers.append(("Content-Length", str(len(data))))
        self.answer(status, data, headers)

    def list(self, bucket, query):
        """Three keys a page, so that every listing continues."""
        prefix, after = query.get("prefix", ""), query.get("continuation-token", "")
        shown = {}
        for name in self.server.objects:
            if not name.startswith(f"{bucket}/{prefix}"):
                continue
            key = name[len(bucket) + 1:]
            folder = key.find("/", len(prefix))
            shown[key if folder < 0 else key[:folder + 1]] = folder >= 0
        keys = sorted(key for key in shown if key > after)
        page, rest = keys[:3], keys[3:]
        text = "".join(
            f"<CommonPrefixes><Prefix>{escape(key)}</Prefix></CommonPrefixes>" if shown[key] else
            f"<Contents><Key>{escape(key)}</Key>"
            f"<Size>{len(self.server.objects[f'{bucket}/{key}'])}</Size></Contents>"
            for key in page)
        if rest:
            text += f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>"
        self.answer(200, (f"<?xml version='1.0'?><ListBucketResult><IsTruncated>"
                          f"{'true' if rest else 'false'}</IsTruncated>{text}"
                          f"</ListBucketResult>").encode())

    def parts(self, name, query, body):
        uploads = self.server.uploads
        if "uploads" in query:
            upload = f"upload/{len(uploads)}+="  # characters that must be encoded
            uploads[upload] = (name, {})
            return self.answer(200, f"<R><UploadId>{escape(upload)}</UploadId></R>".encode())
        upload = uploads.get(query["uploadId"])
        if upload is None or upload[0] != name:
            return self.refuse(404, "NoSuchUpload")
        if self.command == "PUT":
            upload[1][int(query["partNumber"])] = body
            return self.answer(200, headers=[("ETag", f'"{sha256(body)[:32]}"')])
        del uploads[query["uploadId"]]
        if self.command == "DELETE":
            return self.answer(204)
        tags = [unescape(tag, {"&quot;": '"'})
                for tag in re.findall(r"<ETag>([^<]*)</ETag>", body.decode())]
        numbers = sorted(upload[1])
        if [f'"{sha256(upload[1][number])[:32]}"' for number in numbers] != tags:
            return self.refuse(400, "InvalidPart")
        self.server.objects[name] = b"".join(upload[1][number] for number in numbers)
        self.answer(200, b"<CompleteMultipartUploadResult/>")


def serve_for(test, secret_key):
    """A store until the end of `test`, and an environment whose keys and endpoint are the store's."""
    store = Store("AKIATEST", secret_key)
    test.addCleanup(store.close)
    for name, value in {"AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_SECRET_ACCESS_KEY": secret_key,
                        "AWS_ENDPOINT_URL": store.endpoint}.items():
        os.environ[name] = value
        test.addCleanup(os.environ.pop, name)
    return store
