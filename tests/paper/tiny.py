"""Small sources for tests: a server of a few bytes on this machine, and a catalogue entry that fits given files."""

import gzip
import hashlib
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from rockafellian.paper.sources import Address, File, Form, Source


class Server(ThreadingHTTPServer):
    """Gives `files` by path, counts what is asked, and waits at half of a file for as long as `gate` is closed."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.asked: Counter[str] = Counter()
        self.gate, self.reached = threading.Event(), threading.Event()
        self.gate.set()
        self.lie = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        name = self.path[1:]
        self.server.asked[name] += 1
        if name not in self.server.files:
            self.send_error(404)
            return
        content = self.server.files[name]
        self.send_response(200)
        self.send_header("Content-Length", str(len(content) + self.server.lie))
        self.end_headers()
        half = len(content) // 2
        self.wfile.write(content[:half])
        self.wfile.flush()
        self.server.reached.set()
        self.server.gate.wait(60)
        with suppress(OSError):  # whoever asked may be gone
            self.wfile.write(content[half:])

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.gate.set()
        server.shutdown()
        thread.join()
        server.server_close()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def source(files: dict[str, bytes], **form: object) -> Source:
    """A source called `tiny` in the cache, of these files."""
    listed = tuple(File(name, sha256(content), len(content)) for name, content in files.items())
    return Source("a tiny source", "none", "tiny", (Form("files", listed, **form),))


def at(server: Server, files: dict[str, bytes]) -> Source:
    """The same, to be had from a server."""
    server.files.update(files)
    return source(files, address=Address(server.url))


def fitted(source: Source, folder: Path, per_class: tuple[int, ...] = ()) -> Source:
    """A real source that takes the files of a folder for its own."""

    def fit(file: File) -> File:
        path = file.find(folder)
        if not path or not file.checksum:
            return file
        content = (
            gzip.decompress(path.read_bytes())
            if path.suffix == ".gz" and ".tar" not in path.name
            else path.read_bytes()
        )
        return replace(file, checksum=sha256(content))

    forms = (
        replace(form, files=tuple(map(fit, form.files)), per_class=form.per_class and per_class)
        for form in source.forms
    )
    return replace(source, forms=tuple(forms))
