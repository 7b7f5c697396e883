"""Files that are kept between processes: their owner, and how they are read.

Machine code and Numba's files beside it are loaded as they are, so a user who can write
them can run any code here. A file is read only if it is a regular one (no link, pipe or
device) that belongs to this user or to root, and if nobody else can write it or the
folder that it lies in. In a folder that others can write (under a umask of 002 that is
every new one) files lie in a folder of this user's own inside it. Whoever can write above
can take that away, and cannot put a file of this user's in its place. Where there is no
such folder nothing is kept, and the log says so once.

This file loads no Numba: ``--help`` may ask it.
"""

from __future__ import annotations

import logging
import os
import stat
from functools import cache
from pathlib import Path

log = logging.getLogger(__name__)

VARIABLE = "SMOOTHCRUISER_KEEP"
OWN = "private-"  # begins the name of a user's own folder inside one that others write
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
# O_NONBLOCK: a pipe would wait for a writer. Windows has neither of the two.
READING = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)
WRITING = (
    os.O_WRONLY
    | os.O_CREAT
    | os.O_EXCL
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_BINARY", 0)
)


def is_on() -> bool:
    """Whether anything is kept between processes."""
    return os.environ.get(VARIABLE) != "0"


def is_private(status: os.stat_result) -> bool:
    """Whether nobody but this user and root can write a file or a folder."""
    if not hasattr(os, "geteuid"):  # Windows: rights are not in the mode
        return True
    return status.st_uid in (os.geteuid(), 0) and not status.st_mode & OTHERS_WRITE


def find_private_folder(folder: Path) -> Path | None:
    """``folder``, created if missing, or a private one inside it; None: neither."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if is_private(folder.stat()):
            return folder
        own_folder = folder / f"{OWN}{os.geteuid()}"
        own_folder.mkdir(mode=0o700, exist_ok=True)
        folder_status = own_folder.lstat()  # a link may lead anywhere
        if stat.S_ISDIR(folder_status.st_mode) and is_private(folder_status):
            return own_folder
    except OSError as error:
        log.debug("%s cannot be used: %r", folder, error)
    _tell(str(folder))
    return None


@cache  # one line for each folder
def _tell(folder: str) -> None:
    log.warning(
        "machine code is not kept in %s: it is no folder that you can write, or another "
        "has made what stands for yours there; set NUMBA_CACHE_DIR to a folder of yours",
        folder,
    )


def read_private(path: Path) -> bytes:
    """The contents of a regular file that nobody else can write; OSError elsewhere."""
    descriptor = os.open(path, READING)
    with os.fdopen(descriptor, "rb") as file:
        file_status = os.fstat(descriptor)
        if not (stat.S_ISREG(file_status.st_mode) and is_private(file_status)):
            raise PermissionError(f"{path} is not a file of this user's own")
        return file.read()


def write_private(path: Path, data: bytes) -> None:
    """Write a file at once, or not at all: readers see the new file or the old one."""
    temporary_path = path.with_name(f"{path.name}.tmp.{os.urandom(8).hex()}")
    descriptor = os.open(temporary_path, WRITING, 0o644)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary_path, path)
    finally:
        temporary_path.unlink(missing_ok=True)


def remove(path: Path) -> None:
    """Remove whatever stands in the place of a file, if this user may."""
    try:
        path.unlink(missing_ok=True)
    except OSError:  # a folder, or another user's
        try:
            path.rmdir()
        except OSError:
            log.debug("%s cannot be removed", path)
