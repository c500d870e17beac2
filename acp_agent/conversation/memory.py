"""What a session remembers beside its messages, so that no compaction can paraphrase it away.

Carried from one compaction to the next by code: texts word for word, and facts as data. How they are found and how the
model reads them is `compaction`'s matter; here they are plain values.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from acp_agent.frozen import frozen

Change: TypeAlias = Literal["none", "created", "edited", "deleted"]


@frozen
class Pin:
    """A text that the user pinned; `number` names it for as long as the session lives and is never given again."""

    number: int
    text: str


@frozen
class Quote:
    """Something that the user said, word for word, with the seq of the log's entry where it stands."""

    seq: int
    text: str


@frozen
class FileFact:
    """What was done with one file.

    :ivar path: absolute, or as the call named it where no working directory is known.
    :ivar change: what the agent made of it: `created` stays where it was edited afterwards, `none` is read alone or
        put back as it was.
    :ivar lines: the range that was read last, from 1, both ends included; None where none was.
    :ivar digest: of the version that the model saw or wrote last; None where that is not known, or the file is gone.
    :ivar seq: the entry that touched it last.
    :ivar stale: whether the file has changed since the model last saw it, or is there again after it was deleted.
    :ivar gone: whether it is no longer there although the agent did not delete it.
    """

    path: str
    change: Change = "none"
    lines: tuple[int, int] | None = None
    digest: str | None = None
    seq: int = 0
    stale: bool = False
    gone: bool = False


@frozen
class CommandFact:
    """The last run of one command line.

    :ivar command: with single spaces, without the texts of here-documents, cut in the middle where it is long.
    :ivar exit_status: None where a signal or a time limit ended it, or nothing is known.
    :ivar is_test: whether it runs tests; `result` is then the runner's last line of counts, where one was found.
    :ivar stale: whether files were changed after it ran, so that its result may not hold any more.
    :ivar failed: whether it failed, by its status or, whatever that is, by what it plainly printed.
    """

    command: str
    exit_status: int | None = None
    is_test: bool = False
    result: str = ""
    seq: int = 0
    stale: bool = False
    failed: bool = False


@frozen
class ErrorFact:
    """An error that nothing since has shown to be cured.

    :ivar subject: the command or the tool and path that failed; a later success of the same subject cures it.
    """

    subject: str
    text: str
    seq: int = 0


@frozen
class Ledger:
    """Facts of a session in the order in which they last changed, oldest first; made by code from calls and results.

    :ivar branch: of the repository; empty where there is none.
    :ivar head: the commit that is checked out.
    :ivar through: seq of the newest entry that it knows; older ones are not read again.
    """

    files: tuple[FileFact, ...] = ()
    commands: tuple[CommandFact, ...] = ()
    errors: tuple[ErrorFact, ...] = ()
    urls: tuple[str, ...] = ()
    branch: str = ""
    head: str = ""
    through: int = -1


@frozen
class Memory:
    """What outlives every compaction of a session.

    :ivar next_pin: number of the next pin; one that was taken back never gets its number again.
    :ivar rules: sentences of the user that state a rule, oldest first, each text once.
    :ivar rules_elsewhere: seqs of entries that state rules for which there was no room, oldest first.
    :ivar requests: what the user asked for and no compaction kept as a message, oldest first.
    :ivar language: the language in which the user writes, as a name in English; empty where it is not clear.
    """

    pins: tuple[Pin, ...] = ()
    next_pin: int = 1
    rules: tuple[Quote, ...] = ()
    rules_elsewhere: tuple[int, ...] = ()
    requests: tuple[Quote, ...] = ()
    ledger: Ledger = Ledger()
    language: str = ""
