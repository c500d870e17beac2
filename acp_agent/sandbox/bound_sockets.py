"""Asks the kernel which sockets are bound to files, and what is mounted.

Source: sock_diag(7); linux/unix_diag.h; netlink(7); unix(7); proc_net(5),
`/proc/net/unix`; proc_pid_mountinfo(5)
"""

from __future__ import annotations

import os
import re
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from acp_agent.frozen import frozen

_SOCK_DIAG = 4  # NETLINK_SOCK_DIAG
_BY_FAMILY = 20  # SOCK_DIAG_BY_FAMILY
_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_DONE = 3  # NLMSG_DONE; 2 is an error
_ERROR = 2
_NAME = 0
_FILE = 1
"""UNIX_DIAG_NAME and UNIX_DIAG_VFS. A request asks for them by setting their bits."""
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBHIIIII")
_ENTRY = 16
"""Size of `struct unix_diag_msg` in bytes."""
_ATTRIBUTE = struct.Struct("=HH")
_INODE_AND_DEVICE = struct.Struct("=II")
_MINOR_BITS = 20
_MOST_BYTES = 8 * 1024 * 1024
_SECONDS = 1.0
_ESCAPE = re.compile(r"\\([0-7]{3})")


@frozen
class BoundSocket:
    """A socket that is bound to a file.

    :ivar name: the name that the socket was bound to; absolute, or relative to an
        unknown folder.
    :ivar inode: the lower 32 bits of the file's inode; None if the kernel does not
        report it.
    :ivar device: major and minor number of the file system.
    """

    name: str
    inode: int | None = None
    device: tuple[int, int] = (0, 0)


@frozen
class Mount:
    """A mounted file system.

    :ivar path: the place where it is mounted.
    :ivar root: the folder of the file system that is visible there.
    :ivar device: major and minor number.
    """

    path: str
    root: str
    device: tuple[int, int]


def bound_sockets() -> list[BoundSocket]:
    """Return the sockets of this network namespace that are bound to files."""
    with suppress(OSError, struct.error):
        return list(parse_dump(_dump()))
    return list(_listed())  # a kernel without `unix_diag`


def _dump() -> bytes:
    """Ask the kernel for all Unix sockets, with the names and files of those that are
    bound.

    :raises OSError: if the kernel does not answer.
    """
    request = _REQUEST.pack(
        socket.AF_UNIX,
        0,
        0,
        0xFFFFFFFF,
        0,
        1 << _NAME | 1 << _FILE,
        0xFFFFFFFF,
        0xFFFFFFFF,
    )
    received = bytearray()
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        kernel.settimeout(_SECONDS)
        kernel.send(
            _HEADER.pack(_HEADER.size + len(request), _BY_FAMILY, _DUMP, 1, 0) + request
        )
        while len(received) < _MOST_BYTES:
            part = kernel.recv(256 * 1024)
            received += part
            kinds = [kind for kind, _ in _messages(part)]
            if _ERROR in kinds:
                raise OSError("The kernel does not list sockets.")
            if _DONE in kinds or not kinds:
                break
    return bytes(received)


def parse_dump(data: bytes) -> Iterator[BoundSocket]:
    """Yield the sockets that have a path, from the kernel's answers.

    :raises struct.error: if an answer is truncated.
    """
    for kind, body in _messages(data):
        if kind != _BY_FAMILY:
            continue
        attributes = dict(_attributes(body[_ENTRY:]))
        # An abstract name begins with a zero byte.
        name = attributes.get(_NAME, b"").partition(b"\0")[0]
        if name and _FILE in attributes:
            inode, device = _INODE_AND_DEVICE.unpack_from(attributes[_FILE])
            numbers = (device >> _MINOR_BITS, device & (1 << _MINOR_BITS) - 1)
            yield BoundSocket(os.fsdecode(name), inode, numbers)
        elif name:
            yield BoundSocket(os.fsdecode(name))


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the type and body of each message."""
    start = 0
    while start + _HEADER.size <= len(data):
        length, kind, *_ = _HEADER.unpack_from(data, start)
        if length < _HEADER.size:
            return
        yield kind, data[start + _HEADER.size : start + length]
        start += _aligned(length)


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    start = 0
    while start + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, start)
        if length < _ATTRIBUTE.size:
            return
        yield kind, data[start + _ATTRIBUTE.size : start + length]
        start += _aligned(length)


def _aligned(length: int) -> int:
    return length + 3 & ~3


def _listed() -> Iterator[BoundSocket]:
    """Yield the sockets that `/proc/net/unix` lists. The list has neither inodes nor
    devices of their files.
    """
    for line in lines_of("/proc/net/unix"):
        words = line.split(" ", 7)
        if (
            len(words) == 8
            and (name := words[7].lstrip(" "))
            and not name.startswith("@")
        ):
            yield BoundSocket(name)


def mounts() -> list[Mount]:
    """Return the mounted file systems in the order of mounting."""
    found: list[Mount] = []
    for line in lines_of("/proc/self/mountinfo"):
        words = line.split(" ", 5)
        major, _, minor = words[2].partition(":") if len(words) == 6 else ("", "", "")
        if major.isdecimal() and minor.isdecimal():
            root, path = (
                _ESCAPE.sub(lambda found: chr(int(found[1], 8)), word)
                for word in words[3:5]
            )
            found.append(Mount(path, root, (int(major), int(minor))))
    return found


def lines_of(file: str) -> list[str]:
    """Return the lines of one of the kernel's files, or an empty list if it cannot be
    read.
    """
    try:
        return Path(file).read_bytes().decode(errors="surrogateescape").split("\n")
    except OSError:
        return []
