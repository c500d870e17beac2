"""The filter of system calls: what it says of each, and what the kernel makes of it."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_agent.sandbox.bubblewrap import fault
from acp_agent.sandbox.sandbox import Sandbox
from acp_agent.sandbox.seccomp import filter_program

ALLOWED = 0x7FFF0000
X86_64 = 0xC000003E
I386 = 0x40000003
PYTHON = f"{sys.base_prefix}/bin/python3"  # a virtual environment in `/tmp` is not there in the sandbox
on_x86_64 = pytest.mark.skipif(
    os.uname().machine != "x86_64", reason="numbers of x86-64"
)


def verdict(program: bytes, number: int, architecture: int, *arguments: int) -> int:
    """Return what the kernel's machine would, which takes forward jumps alone."""
    given = (*arguments, *(0 for _ in range(6 - len(arguments))))
    data = struct.pack("<iIQ6Q", number, architecture, 0, *given)
    instructions = list(struct.iter_unpack("<HBBI", program))
    at = 0
    accumulator = 0
    while True:
        code, then, otherwise, constant = instructions[at]
        match code:
            case 0x20:
                [accumulator] = struct.unpack_from("<I", data, constant)
                then = 0
            case 0x15:
                then = then if accumulator == constant else otherwise
            case 0x35:
                then = then if accumulator >= constant else otherwise
            case _:
                assert code == 0x06
                return constant
        at += 1 + then


PAIRS = {kind | flags for kind in (1, 5) for flags in (0, 0o4000, 0o2000000, 0o2004000)}


@on_x86_64
@given(
    st.sampled_from((41, 53)),
    st.integers(0, 20),
    st.integers(0, 2**32 - 1) | st.sampled_from([*PAIRS, 2]),
)
def test_without_local_sockets_only_connected_pairs_of_that_family_are_made(
    number: int, family: int, kind: int
) -> None:
    is_pair = number == 53 and kind in PAIRS
    is_made = (
        family in (2, 10, 16) if number == 41 else is_pair and family in (1, 2, 10, 16)
    )
    said = verdict(filter_program(unix_sockets=False), number, X86_64, family, kind)
    assert said == (ALLOWED if is_made else refusal(errno.EAFNOSUPPORT))
    assert verdict(filter_program(unix_sockets=False), 16, X86_64, 0, kind) == verdict(
        filter_program(), 16, X86_64, 0, kind
    )


def refusal(code: int) -> int:
    return 0x00050000 | code


@on_x86_64
@given(st.integers(0, 2**31 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
@example(41, 40, 0)
@example(53, 1, 0)
@example(41, 2**32 + 2, 0)  # the kernel takes the lower half
@example(16, 0, 0x5412)
@example(16, 0, 2**32 + 0x5412)
@example(425, 0, 0)
@example(0x40000000 | 41, 40, 0)
def test_sockets_of_four_families_are_made_and_everything_else_but_a_few_calls_goes(
    number: int, first: int, second: int
) -> None:
    expected = ALLOWED
    if number in (41, 53) and first % 2**32 not in (1, 2, 10, 16):
        expected = refusal(errno.EAFNOSUPPORT)
    if number == 16 and second % 2**32 in (0x5412, 0x541C):
        expected = refusal(errno.EPERM)
    if number in (248, 249, 250, 425, 426, 427) or number >= 0x40000000:
        expected = refusal(errno.ENOSYS)
    assert verdict(filter_program(), number, X86_64, first, second) == expected


@on_x86_64
@pytest.mark.parametrize(
    ("number", "architecture", "first", "code"),
    [
        (359, I386, 40, errno.EAFNOSUPPORT),
        (102, I386, 1, errno.ENOSYS),
        (425, I386, 1, errno.ENOSYS),
        (1, 0x12345678, 1, errno.ENOSYS),
    ],
)
def test_calls_of_other_architectures_are_no_way_around_it(
    number: int, architecture: int, first: int, code: int
) -> None:
    assert verdict(filter_program(), number, architecture, first) == refusal(code)


@pytest.mark.process
@on_x86_64
@pytest.mark.skipif(bool(fault()), reason="no bubblewrap")
def test_the_kernel_obeys_it_and_ordinary_sockets_are_made(tmp_path: Path) -> None:
    script = (
        "import ctypes, errno, os, pty, fcntl, socket\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "def told(*words):\n"
        "    ctypes.set_errno(0); libc.syscall(*words); return errno.errorcode.get(ctypes.get_errno(), 'made')\n"
        "print('vsock', told(41, 40, 1, 0)); print('crypto', told(41, 38, 5, 0))\n"
        "print('ring', told(425, 1, 0)); print('keys', told(250, 0, -3, 0))\n"
        "for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):\n"
        "    socket.socket(family, socket.SOCK_DGRAM if family == socket.AF_NETLINK else socket.SOCK_STREAM)\n"
        "_, end = pty.openpty()\n"
        "try: fcntl.ioctl(end, 0x5412, b'x')\n"
        "except OSError as error: print('terminal', errno.errorcode[error.errno])\n"
    )
    with Sandbox((tmp_path,), ()).wrap(
        (PYTHON, "-c", script), tmp_path, network=False
    ) as (_, words):
        told = subprocess.run(
            words, capture_output=True, text=True, check=True
        ).stdout.splitlines()
    assert told == [
        "vsock EAFNOSUPPORT",
        "crypto EAFNOSUPPORT",
        "ring ENOSYS",
        "keys ENOSYS",
        "terminal EPERM",
    ]
