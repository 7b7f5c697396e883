"""Files that may come from anywhere: found, and measured before they are unpacked.

A missing file gets one sentence, and so does one that is larger than ``MOST_BYTES``, as
it is or unpacked: a few kilobytes can unpack to any size. Out of scope: the contents.
"""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from lzma import LZMAError
from pathlib import Path

from smoothcruiser.errors import InvalidInput, describe_error

# of a file, packed or unpacked: twenty million branches of a UMB file, and below the
# memory of a user's machine
MOST_BYTES = 2**30
# errors of unpackers where bytes are missing or wrong
DAMAGED = (
    OSError,
    EOFError,
    ValueError,
    KeyError,
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    LZMAError,
    NotImplementedError,
    RuntimeError,
)


def find_file(text: str, prefix: str) -> Path:
    """The file that a name gives, relative to the current folder."""
    try:
        file_path = Path(text).expanduser()
        is_file, num_bytes = file_path.is_file(), file_path.stat().st_size
    except (OSError, ValueError, RuntimeError) as error:  # also a null byte, ~nobody
        raise InvalidInput(
            f"{prefix}: cannot open {text!r} ({describe_error(error)}); a path is relative to "
            "the current folder and holds no comma."
        ) from error
    if not is_file:
        raise InvalidInput(
            f"{prefix}: needs a file, and {text!r} is a folder or a device."
        )
    check_size(text, num_bytes)
    return file_path


def check_size(file: str, num_bytes: int) -> None:
    """Refuse a file that is larger than it may be."""
    if num_bytes > MOST_BYTES:
        raise InvalidInput(
            f"{file} holds {num_bytes:,} bytes, and at most {MOST_BYTES:,} are read; a "
            "smaller instance of the model fits."
        )


def damage_error(file: str, error: BaseException) -> InvalidInput:
    """The error of a file that cannot be read to its end."""
    return InvalidInput(
        f"{file} is damaged, or no file of this format: {describe_error(error)}; write it again."
    )
