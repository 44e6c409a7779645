"""Several processes that ask for one source: each makes it anew, from the address and the checksums."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tiny import FILES, Server, contents, sha256

from rockafellian_reproduction.data import fetch
from rockafellian_reproduction.data.sources import Source

SCRIPT = f"""
import sys
from rockafellian_reproduction.data import downloads, fetch
from rockafellian_reproduction.data.sources import SOURCES, Address, File, Form, Source
downloads.TIMEOUT = 60
files = tuple(File(*pair.split("=")) for pair in {[f"{name}={sha256(content)}" for name, content in FILES.items()]})
SOURCES["tiny"] = Source("", "", "tiny", (Form("files", files, address=Address(sys.argv[1])),))
print(fetch.get("tiny", cache=sys.argv[2], progress="quiet"))
"""


def start(server: Server, cache: Path) -> subprocess.Popen[str]:
    call = [sys.executable, "-c", SCRIPT, server.url, str(cache)]
    return subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_of_two_processes_that_ask_at_once_one_fetches_and_one_waits(tiny: Source, server: Server, cache: Path) -> None:
    server.gate.clear()
    with start(server, cache) as first, start(server, cache) as second:
        assert server.reached.wait(60)
        waiting, deadline = None, time.monotonic() + 30
        for process in (first, second):  # the one that fetches is silent, and continues when the gate opens
            os.set_blocking(process.stderr.fileno(), False)
        while waiting is None:
            waiting = next((line for process in (first, second) if (line := process.stderr.readline())), None)
            assert first.poll() is None
            assert second.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert waiting == f"waiting for another process that fetches tiny into {cache}\n"
        server.gate.set()
        assert first.communicate(timeout=60)[0] == second.communicate(timeout=60)[0] == f"{cache / 'tiny'}\n"
    assert server.asked == {"a.txt": 1, "deep/b.bin": 1}


def test_a_fetch_that_was_killed_leaves_nothing_that_looks_done_and_the_next_one_cleans_up(
    tiny: Source, server: Server, cache: Path
) -> None:
    server.gate.clear()
    with start(server, cache) as process:
        while not list((cache / ".partial" / "tiny").rglob("a.txt")):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert list((cache / ".partial" / "tiny").rglob("a.txt"))
    assert not (cache / "tiny").exists()
    assert fetch.where("tiny", cache) is None
    (cache / ".partial" / "tiny" / "more").write_text("left")
    server.gate.set()
    assert contents(fetch.get("tiny", cache=cache)) == FILES
    assert list((cache / ".partial").iterdir()) == []
