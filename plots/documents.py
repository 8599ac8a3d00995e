"""Reading the JSON documents that are drawn, and writing what is drawn of them.

Every file is made in memory first and moved into place last, so a failure leaves the folder's old files as they were.
"""

import json
import os
from pathlib import Path

SCHEMA_VERSION = 1
KINDS = ["report", "history", "gate"]


class Refused(Exception):
    """What the user is told, in one line; .status is the exit status."""

    def __init__(self, message, status=2):
        super().__init__(message)
        self.status = status


def load(path):
    """A document of one of the kinds above. Whether it follows its schema shows when it is drawn."""
    def refuse_constant(name):
        raise ValueError(f"{name} is not JSON")

    try:
        document = json.loads(Path(path).read_bytes().decode("utf-8"), parse_constant=refuse_constant)
    except OSError as e:
        raise Refused(f"{path}: cannot be read: {e.strerror or e}") from e
    except (ValueError, RecursionError) as e:
        raise Refused(f"{path}: not valid JSON: {e}") from e
    kind = document.get("kind") if isinstance(document, dict) else None
    if kind not in KINDS:
        raise Refused(f"{path}: kind is {json.dumps(kind)}; what can be drawn is "
                      + ", ".join(f'"{k}" (`ladder {k}` makes it)' for k in KINDS))
    version = document.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise Refused(f"{path}: schema_version is {json.dumps(version)}, this program reads {SCHEMA_VERSION}")
    return document


def write(files, folder):
    """{name, with folders: bytes}. Each file whole or not at all: written beside its place under another name, then moved
    there. A file of None is removed: an old one would not show this document. Returns the places, in order."""
    staged = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            if content is None:
                continue
            place = folder / name
            place.parent.mkdir(exist_ok=True)
            temporary = place.parent / f".{place.name}.{os.getpid()}.tmp"
            staged.append((temporary, place))
            with open(temporary, "wb") as f:
                f.write(content)
                f.flush()
                os.fsync(f.fileno())
        for temporary, place in staged:
            os.replace(temporary, place)
        places = [place for _, place in staged]
        for name in files:
            if folder / name not in places:
                (folder / name).unlink(missing_ok=True)
    except OSError as e:
        raise Refused(f"{folder}: cannot be written: {e.strerror or e}") from e
    finally:
        for temporary, _ in staged:
            try:
                temporary.unlink(missing_ok=True)
            except OSError:
                pass
    return places
