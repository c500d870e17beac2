"""The system call filter of the sandbox on Linux. It blocks features that no namespace
isolates.

A network namespace does not isolate AF_VSOCK, which reaches the host of a virtual
machine, or some rarer families. With io_uring, a process can create sockets without
calling `socket`. With `keyctl`, it can take keys from the session's keyring. With
`TIOCSTI`, anyone who has a terminal open can insert input into it.

Source: seccomp(2); vsock(7); keyrings(7); ioctl_tty(2); linux/filter.h, linux/audit.h
and the kernel's tables of system calls. Docker's default profile refuses io_uring and
the keyring too.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from acp_agent.frozen import frozen

_Instruction: TypeAlias = tuple[int, int, int, int]
"""Code, jump if true, jump if false, and constant, as in `struct sock_filter`."""

_LOAD = 0x20
_EQUAL = 0x15
_AT_LEAST = 0x35
_RETURN = 0x06
_NUMBER = 0
_ARCHITECTURE = 4
_FIRST = 16
_SECOND = 24
"""Offsets in `struct seccomp_data`. The offsets of arguments point to their lower
halves, in little-endian order.
"""
_ALLOW = 0x7FFF0000
_FAIL = 0x00050000
_X32 = 0x40000000
"""The bit that marks x86-64's third set of system calls, which hardly any kernel has
and nobody needs.
"""
_IO_URING = (425, 426, 427)
_ISOLATED = (2, 10, 16)
"""AF_INET, AF_INET6 and AF_NETLINK, which the network namespace isolates."""
_FAMILIES = (1, *_ISOLATED)
"""The same with AF_UNIX, whose sockets with a path are covered."""
_STREAMS = tuple(
    kind | flags for kind in (1, 5) for flags in (0, 0o4000, 0o2000000, 0o2004000)
)
"""SOCK_STREAM and SOCK_SEQPACKET, also with SOCK_NONBLOCK and SOCK_CLOEXEC. A connected
socket of these types stays with its peer, but a datagram can be sent to an address
other than the peer's.
"""
_TERMINAL = (0x5412, 0x541C)
"""TIOCSTI, TIOCLINUX."""


@frozen
class _Calls:
    """System call numbers of one architecture.

    :ivar audit: the architecture, as the kernel reports it to filters.
    :ivar sockets: the calls that create sockets, with the family as their first
        argument: `socket` and `socketpair`.
    :ivar refused: the calls that always fail, in addition to io_uring's.
    """

    audit: int
    sockets: tuple[int, ...]
    ioctl: int
    refused: tuple[int, ...]
    has_x32: bool = False


_X86_64 = _Calls(0xC000003E, (41, 53), 16, (248, 249, 250), has_x32=True)
# Filters cannot see the arguments of `socketcall`.
_I386 = _Calls(0x40000003, (359, 360), 54, (286, 287, 288, 102))
_AARCH64 = _Calls(0xC00000B7, (198, 199), 29, (217, 218, 219))
_ARM = _Calls(0x40000028, (281, 288), 54, (309, 310, 311))
_RISCV64 = _Calls(0xC00000F3, (198, 199), 29, (217, 218, 219))
_MACHINES = {
    "x86_64": (_X86_64, _I386),
    "aarch64": (_AARCH64, _ARM),
    "riscv64": (_RISCV64,),
}


def filter_program(*, unix_sockets: bool = True) -> bytes:
    """Return the filter for this machine; empty if the machine's system call numbers
    are unknown.

    :param unix_sockets: whether programs may create AF_UNIX sockets. If not, they may
        only create connected pairs.
    """
    known = _MACHINES.get(os.uname().machine, ()) if sys.byteorder == "little" else ()
    if not known:
        return b""
    instructions = [(_LOAD, 0, 0, _ARCHITECTURE)]
    for calls in known:
        body = list(_filtered(calls, unix_sockets=unix_sockets))
        instructions += [(_EQUAL, 0, len(body), calls.audit), *body]
    instructions.append(_fail(errno.ENOSYS))
    return b"".join(struct.pack("<HBBI", *each) for each in instructions)


def _filtered(calls: _Calls, *, unix_sockets: bool) -> Iterator[_Instruction]:
    """Yield the instructions for one architecture. Each path through them ends with a
    verdict.
    """
    yield (_LOAD, 0, 0, _NUMBER)
    if calls.has_x32:
        yield from ((_AT_LEAST, 0, 1, _X32), _fail(errno.ENOSYS))
    for number in (*calls.refused, *_IO_URING):
        yield from ((_EQUAL, 0, 1, number), _fail(errno.ENOSYS))
    families = _FAMILIES if unix_sockets else _ISOLATED
    verdicts = ((_RETURN, 0, 0, _ALLOW), _fail(errno.EAFNOSUPPORT))
    one, pair = calls.sockets
    yield from _where(one, _FIRST, families, verdicts)
    if not unix_sockets:
        yield from _unless_one_of(pair, _SECOND, _STREAMS, _fail(errno.EAFNOSUPPORT))
    yield from _where(pair, _FIRST, _FAMILIES, verdicts)
    yield from _where(
        calls.ioctl, _SECOND, _TERMINAL, (_fail(errno.EPERM), (_RETURN, 0, 0, _ALLOW))
    )
    yield (_RETURN, 0, 0, _ALLOW)


def _where(
    number: int,
    argument: int,
    values: Sequence[int],
    verdicts: tuple[_Instruction, _Instruction],
) -> Iterator[_Instruction]:
    """Yield the instructions for one system call.

    The first verdict applies if an argument has one of the values, and the second if it
    does not.
    """
    then, otherwise = verdicts
    body = [(_LOAD, 0, 0, argument)]
    for value in values:
        body += [(_EQUAL, 0, 1, value), then]
    body.append(otherwise)
    yield (_EQUAL, 0, len(body), number)
    yield from body


def _unless_one_of(
    number: int, argument: int, values: Sequence[int], verdict: _Instruction
) -> Iterator[_Instruction]:
    """Yield the instructions for one system call. The verdict applies if an argument
    has none of the values.

    Otherwise the next instructions follow, with the number of the system call loaded.
    """
    yield (_EQUAL, 0, len(values) + 3, number)
    yield (_LOAD, 0, 0, argument)
    for left, value in zip(range(len(values), 0, -1), values, strict=True):
        yield (_EQUAL, left, 0, value)
    yield verdict
    yield (_LOAD, 0, 0, _NUMBER)


def _fail(code: int) -> _Instruction:
    return (_RETURN, 0, 0, _FAIL | code)
