"""Reads the JSON documents that are drawn, and writes the files that are drawn of them.

Every file is made in memory first and moved into place last. So a failure leaves the folder's old files as they were.
"""

import contextlib
import json
import os
import secrets
from pathlib import Path

SCHEMA_VERSION = 1
# What can be drawn, and the command that makes it.
KINDS = {"report": "ladder report", "history": "ladder history", "gate": "ladder gate", "training_report": "ladder report TRAINING",
         "lr_sweep": "ladder train --lr-sweep", "to_loss": "ladder ablate --to-loss"}


class Refused(Exception):
    """An error for the user, in one line. .status is the exit status."""

    def __init__(self, message, status=2):
        super().__init__(message)
        self.status = status


def load(path):
    """A document of one of the kinds above. Drawing it shows whether it follows its schema."""
    def refuse_constant(name):
        raise ValueError(f"{name} is not JSON")

    try:
        document = json.loads(Path(path).read_bytes().decode("utf-8"), parse_constant=refuse_constant)
    except OSError as e:
        raise Refused(f"{path}: cannot be read: {e.strerror or e}") from e
    except (ValueError, RecursionError) as e:
        raise Refused(f"{path}: not valid JSON: {e}") from e
    kind = document.get("kind") if isinstance(document, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise Refused(f"{path}: kind is {json.dumps(kind)}; what can be drawn is "
                      + ", ".join(f'"{kind}" (`{command}` makes it)' for kind, command in KINDS.items()))
    version = document.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise Refused(f"{path}: schema_version is {json.dumps(version)}, this program reads {SCHEMA_VERSION}")
    return document


def handle_of(folder, name):
    """A handle of the folder that `name` is in, below `folder`. It is made if it is missing. Links are not followed: others may have
    prepared them."""
    parent = os.path.dirname(name)
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    if not parent:
        return top
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(parent, dir_fd=top)
        return os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
    except OSError as e:
        if (Path(folder) / parent).is_symlink():
            raise Refused(f"{Path(folder) / parent}: is a symbolic link, and nothing is written through it") from e
        raise
    finally:
        os.close(top)


def write(files, folder):
    """Writes {name, which may have a folder: bytes}; returns the places, in order. Each file is written beside its place under another
    name and then moved there, so it is whole or not there. A link is replaced. A file of None is removed."""
    staged, handles = [], {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            parent, own = os.path.split(name)
            if parent not in handles and (content is not None or (folder / parent).is_dir()):
                handles[parent] = handle_of(folder, name)
            if content is None:
                continue
            temporary = f"{own}.{secrets.token_hex(8)}.tmp"  # as the program's own (files::is_unfinished)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666, dir_fd=handles[parent])
            staged.append((temporary, own, handles[parent], folder / name))
            with open(descriptor, "wb") as f:
                f.write(content)
                f.flush()
                os.fsync(f.fileno())
        for temporary, own, handle, _ in staged:
            os.replace(temporary, own, src_dir_fd=handle, dst_dir_fd=handle)
        places = [place for *_, place in staged]
        for name, content in files.items():
            parent, own = os.path.split(name)
            if content is None and parent in handles:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(own, dir_fd=handles[parent])
    except OSError as e:
        raise Refused(f"{folder}: cannot be written: {e.strerror or e}") from e
    finally:
        for temporary, _, handle, _ in staged:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=handle)
        for handle in handles.values():
            os.close(handle)
    return places
