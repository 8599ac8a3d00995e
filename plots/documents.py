"""Reads the JSON documents that are drawn, and writes the files that are drawn of them.

The program has written a document just before: it follows its schema, has no control characters, and its folder has no links that
lead elsewhere. Every file is made in memory first and moved into place last, so that a failure leaves the old files as they were.
"""

import json
import os
import secrets
from pathlib import Path


class Refused(Exception):
    """An error for the user, in one line. .status is the exit status."""

    def __init__(self, message, status=2):
        super().__init__(message)
        self.status = status


def load(path):
    """A document of results/schemas."""
    try:
        return json.loads(Path(path).read_bytes())
    except (OSError, ValueError) as e:
        raise Refused(f"{path}: cannot be read: {e}") from e


def write(files, folder):
    """Writes {name, which may have a folder: bytes}; returns the places, in order. Each file is whole or not there. A file of None is
    removed."""
    staged = {}
    try:
        for name, content in files.items():
            if content is not None:
                place = folder / name
                place.parent.mkdir(parents=True, exist_ok=True)
                staged[place] = place.with_name(f"{place.name}.{secrets.token_hex(8)}.tmp")  # as the program's own (files::is_unfinished)
                staged[place].write_bytes(content)
        for place, temporary in staged.items():
            os.replace(temporary, place)
        for name, content in files.items():
            if content is None:
                (folder / name).unlink(missing_ok=True)
    except OSError as e:
        raise Refused(f"{folder}: cannot be written: {e.strerror or e}") from e
    finally:
        for temporary in staged.values():
            temporary.unlink(missing_ok=True)
    return list(staged)
