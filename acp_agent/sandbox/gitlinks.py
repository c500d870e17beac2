"""Finds the gitlinks in git's index: the entries that name a folder as a separate
repository.

The index is parsed exactly as git parses it, since git also uses gitlinks in entries
that other programs would reject as malformed. Parsing takes time linear in the size of
the file.

Source: gitformat-index(5); git's read-cache.c (`create_from_disk`,
`load_cache_entries_threaded`) and object.h (`S_ISGITLINK`)
"""

from __future__ import annotations

from collections.abc import Iterator

from acp_agent.frozen import frozen

HASH_SIZES = {"sha1": 20, "sha256": 32}
"""Sizes of a hash in bytes, keyed by the name of the algorithm."""
LONGEST_PATH = 4096
"""Maximum length of a path that the system can look up."""
_HEADER = 12
_MODE = 24
_HASH = 40
_TYPE = 0xF0
_TYPE_OF_GITLINK = 0xE0
_HAS_MORE_FLAGS = 0x4000
_LENGTH = 0x0FFF
"""The bits of the flags that contain the length of the path. If all of them are set,
the path has at least this length and ends at the next zero byte.
"""
_LARGEST_NUMBER = 1 << 56


@frozen
class _Block:
    """A sequence of entries that git reads independently of the rest of the index.

    :ivar begin: the offset of its first entry.
    :ivar count: the number of its entries.
    """

    begin: int
    count: int


def gitlinks_in(index: bytes, hash_size: int) -> Iterator[bytes]:
    """Yield the paths of the gitlinks in an index, except for paths that are too long
    for the system.

    :param hash_size: the size of the repository's hashes in bytes.
    """
    if index[:4] != b"DIRC":
        return
    blocks = [_Block(_HEADER, int.from_bytes(index[8:12], "big"))]
    blocks += _offset_table(index, hash_size)
    left = 2 * len(index)  # blocks may overlap
    for block in blocks:
        reader = _Reader(index, hash_size, block.begin)
        for _ in range(block.count):
            before = reader.position
            is_gitlink = reader.read_entry()
            left -= reader.position - before
            if is_gitlink is None or left < 0:
                break
            if is_gitlink and reader.length <= LONGEST_PATH:
                yield reader.path
        if left < 0:
            return


class _Reader:
    """Reads the entries of an index one by one.

    :ivar position: the offset of the next entry.
    :ivar path: the path of the last entry, truncated to `LONGEST_PATH` bytes. Version 4
        omits the prefix that a path shares with the previous one, so the full paths
        could take much more memory than the index.
    :ivar length: the length of the full path in bytes.
    """

    def __init__(self, index: bytes, hash_size: int, position: int) -> None:
        self._index = index
        self._flags = _HASH + hash_size
        self._shares_prefixes = index[4:8] == b"\0\0\0\4"
        self.position = position
        self.path = b""
        self.length = 0

    def read_entry(self) -> bool | None:
        """Read the next entry, and return whether it is a gitlink; None if git would
        stop reading here.
        """
        index = self._index
        begin = self.position + self._flags + 2
        if begin > len(index):
            return None
        flags = index[begin - 2] << 8 | index[begin - 1]
        if flags & _HAS_MORE_FLAGS:
            begin += 2
        kept = 0
        if self._shares_prefixes:
            omitted, begin = _number(index, begin)
            kept = self.length - omitted
        added = (flags & _LENGTH) - kept
        if flags & _LENGTH == _LENGTH:
            added = index.find(b"\0", begin) - begin
        if kept < 0 or added < 0 or begin + added >= len(index):
            self.position = len(index)
            return None
        end = begin + added
        if kept <= LONGEST_PATH:
            room = LONGEST_PATH - kept
            self.path = self.path[:kept] + index[begin : min(end, begin + room)]
        self.length = kept + added
        is_gitlink = index[self.position + _MODE + 2] & _TYPE == _TYPE_OF_GITLINK
        if self._shares_prefixes:
            self.position = end + 1
        else:
            self.position += (end - self.position + 8) & ~7
        return is_gitlink


def _offset_table(index: bytes, hash_size: int) -> Iterator[_Block]:
    """Yield the blocks that git reads with several threads, if the index has a table of
    them.
    """
    at = len(index) - hash_size - (12 + hash_size)  # the last extension
    if at < _HEADER or index[at : at + 4] != b"EOIE":
        return
    at = int.from_bytes(index[at + 8 : at + 12], "big")
    while at + 8 <= len(index):
        size = int.from_bytes(index[at + 4 : at + 8], "big")
        if index[at : at + 4] == b"IEOT":
            table = index[at + 12 : at + 8 + size]
            for entry in range(0, len(table) - 7, 8):
                yield _Block(
                    int.from_bytes(table[entry : entry + 4], "big"),
                    int.from_bytes(table[entry + 4 : entry + 8], "big"),
                )
            return
        at += 8 + size


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number in git's variable-width encoding, and the position after it."""
    if at >= len(data):
        return 0, at
    value = data[at] & 0x7F
    while data[at] & 0x80 and at + 1 < len(data) and value < _LARGEST_NUMBER:
        at += 1
        value = (value + 1 << 7) | (data[at] & 0x7F)
    return value, at + 1
