"""Small things for tests: a server of a few bytes on this machine, a catalog entry that fits given files, records."""

import gzip
import hashlib
import io
import struct
import tarfile
import threading
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

from rockafellian_reproduction.data.sources import Address, File, Form, Source
from rockafellian_reproduction.pages.compare import NUMBERS, SCALES, Comparison, Report
from rockafellian_reproduction.tables import TABLES, Table
from rockafellian_reproduction.tables.figures import Figure
from rockafellian_reproduction.tables.measured import READINGS
from rockafellian_reproduction.training.jobs import OTHER_NAMES, Job
from rockafellian_reproduction.training.records import add_record

FILES = {"a.txt": b"the first file", "deep/b.bin": bytes(range(256)) * 20}
#: The cell that Table 5 is read from.
ATTACKED = OTHER_NAMES["5"][1]


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
    """The same, served by a server."""
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


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def nothing_is_there(cache: Path) -> bool:
    """No files but locks, and nothing where the data should be."""
    files = [path for path in cache.rglob("*") if path.is_file() and not path.name.endswith(".lock")]
    return not files and not (cache / "tiny").exists()


def tgz(inside: str, files: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(inside + name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


def python2_pickle(pixels: np.ndarray, labels: list[int]) -> bytes:
    """As the makers' batches are: protocol 2 of Python 2, whose strings are bytes."""

    def short(text: bytes) -> bytes:
        return b"U" + bytes([len(text)]) + text

    shape = b"".join(b"M" + struct.pack("<H", length) for length in pixels.shape) + b"\x86"
    kind = (
        b"cnumpy\ndtype\n"
        + short(b"u1")
        + b"K\x00K\x01\x87R(K\x03"
        + short(b"|")
        + b"NNN"
        + 2 * b"J\xff\xff\xff\xff"
        + b"K\x00tb"
    )
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + short(b"b") + b"\x87R"
    state = b"(K\x01" + shape + kind + b"\x89T" + struct.pack("<I", pixels.size) + pixels.tobytes() + b"tb"
    numbers = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\x02}(" + short(b"data") + array + state + short(b"labels") + numbers + b"u."


def torch_zip(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", content)
        archive.writestr("archive/version", b"3\n")
    return file.getvalue()


def record(cell: dict[str, Any], seed: int = 0, results: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A record as `reproduce` writes it, as far as it is compared."""
    return {
        "cell": cell,
        "seed": seed,
        "results": results or {},
        "tested": {},
        "bins": [],
        "rounds": [],
        "rows": {"train": 300},
        "machine": {"processor": "a processor", "cores": 2},
        "date": f"2026-11-1{seed}",
        "seconds": 1800.0,
        **more,
    }


def as_printed(number: int, seeds: int = 1, add: float = 0.0) -> list[dict[str, Any]]:
    """Records that give the published figures, all moved by `add`."""
    table = TABLES[number]
    printed = [figure.cell for figure in table.published]
    return [
        record(cell, seed, {headline(f, table): f.value + add for f in table.published if f.cell == cell})
        for cell in table.cells
        if cell in printed
        for seed in range(seeds)
    ]


def headline(figure: Figure, table: Table) -> str:
    """The name in a record of what stands beside a printed figure."""
    return table.headline.template.format(figure.measure)


def bins(removed: int, untouched: int) -> list[Any]:
    """One re-weighting of 1,000 wrong rows and 1,000 clean ones; one of the untouched has the freed weight."""
    return [[0, 990 - removed, 1, 2, 7, removed], [1, untouched - 1, 1000 - untouched, 0, 0, 0]]


def full_record(number: int, cell: dict[str, Any], seed: int, **more: Any) -> dict[str, Any]:
    """A record that moves the published figures by the seed, with something to plot."""
    table, robust = TABLES[number], cell["method"] == TABLES[number].pairs[1]
    printed = {f.measure: f.value for f in table.published if f.cell == cell}
    results: dict[str, Any] = {
        reading.template.format(name): value + seed - (reading is not table.headline)
        for name, value in printed.items()
        for reading in READINGS[table.measures]
        if table.measures == "eps" or reading is table.headline
    }
    if table.measures == "ranking":
        results["curve"] = [[1.0, 0.5, 0.0], [0.1, 0.5, 1.0]]
    shown = {
        "tested": {"1": 80.0 + seed, "2": 90.0},
        "bins": [[[0, 60 - 10 * i, 0, 0, 0, 10 * i], [1, 239, 0, 0, 0, 0]] for i in range(3)] if robust else [],
        "rounds": [{"rule_seconds": 0.002}] if robust else [],
    }
    return record(cell, seed, results, **(shown | more))


def full_records(number: int, seeds: int = 2) -> list[dict[str, Any]]:
    return [full_record(number, cell, seed) for cell in TABLES[number].cells for seed in range(seeds)]


def comparison(number: int, seeds: int = 2) -> Comparison:
    if number == 5:
        return Comparison(5, "network", [made for made in full_records(4, seeds) if made["cell"] == ATTACKED])
    return Comparison(number, TABLES[number].answers, full_records(number, seeds), plain=_plain(number, seeds))


def _plain(number: int, seeds: int) -> list[dict[str, Any]]:
    """The records of the plain runs that a table has no own of."""
    return [] if TABLES[number].plain_table is None else full_records(1, seeds)


def report(*made: Comparison) -> Report:
    return Report(NUMBERS, tuple(SCALES), made)


def write_record(folder: Path, number: int, scale: str, found: dict[str, Any]) -> dict[str, Any]:
    """Add a record as `reproduce` does, and return it with the digest of its settings."""
    job = Job(number, scale, found["cell"], found["seed"], found.get("variant", {}))
    record = {**found, "settings": job.settings}
    add_record(job.file(folder), record)
    return record
