"""A process that was forked is what a process that was started would be."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support import forked
from support.forked import BASE, Forked, start

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is forked")

PROBE = """
import gc, json, locale, os, signal, subprocess, sys, threading, time
from pathlib import Path
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
umask = os.umask(0)
print(json.dumps({
    "argv": sys.argv, "orig_argv": sys.orig_argv, "flags": str(sys.flags), "path": sys.path, "cwd": os.getcwd(),
    "executable": sys.executable, "environment": dict(os.environ),
    "from C": subprocess.check_output(["env"], text=True),
    "main": [sorted(vars()), __name__, __file__, __spec__.name, sys.modules["__main__"].__dict__ is globals()],
    "signals": {int(one): str(signal.getsignal(one)) for one in signal.valid_signals()},
    "masks": [status[name] for name in ("SigBlk", "SigIgn", "SigCgt", "Umask")],
    "group": [os.getpgid(0), os.getsid(0)], "threads": [one.name for one in threading.enumerate()],
    "main thread": threading.main_thread() is threading.current_thread(),
    "descriptors": [os.readlink(f"/proc/self/fd/{fd}").partition("[")[0]
                    for fd in range(256) if Path(f"/proc/self/fd/{fd}").exists()],
    "streams": [str(one) + one.errors + str([one.line_buffering, one.write_through, one.seekable(), one.isatty()])
                for one in (sys.stdin, sys.stdout, sys.stderr)],
    "locale": [locale.setlocale(locale.LC_ALL), sys.getfilesystemencoding()], "zone": time.tzname,
    "collects": [gc.isenabled(), gc.get_threshold()], "recursion": sys.getrecursionlimit(),
    "hooks": [str(sys.excepthook), len(sys.meta_path), len(sys.path_hooks)], "warnings": sys.warnoptions,
    "read": sys.stdin.read(),
}))
"""
ENVIRONMENT = {**BASE, "PATH": os.environ["PATH"], "TZ": "Asia/Tokyo", "MORE": "ü"}
del ENVIRONMENT["HOME"]  # which BASE has


def run(cwd: Path, program: str, *words: str, stdin: bytes = b"", env: dict[str, str] = ENVIRONMENT) -> dict[str, Any]:
    (cwd / "probe.py").write_text(program)
    process = start("probe", words, cwd=cwd, env=env)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdin, process.stdout, process.stderr:
        process.stdin.write(stdin)
        process.stdin.close()
        read = {"out": process.stdout.read(), "err": process.stderr.read()}
        return {"forked": isinstance(process, Forked), "code": process.wait(20), **read}


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    return lambda: monkeypatch.setattr(forked, "_possible", lambda: False)


def test_all_that_a_process_can_see_of_itself_is_the_same(tmp_path: Path, cold: Callable[[], None]) -> None:
    first = run(tmp_path, PROBE, "a word", "", "ü", stdin=b"input")
    cold()
    second = run(tmp_path, PROBE, "a word", "", "ü", stdin=b"input")
    assert (first["forked"], second["forked"]) == (True, False)
    assert (first["code"], first["err"]) == (0, b"")
    assert json.loads(first["out"]) == json.loads(second["out"])
    assert json.loads(first["out"])["read"] == "input"


@pytest.mark.parametrize(
    "program",
    [
        "raise SystemExit(3)",
        "import sys; sys.exit('a sentence')",
        "import os; os._exit(4)",
        "import atexit; atexit.register(print, 'at the end'); print('first', end='')",
        "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
        "import os, signal; os.kill(os.getpid(), signal.SIGPIPE); print('ignored')",
        "import threading; threading.Thread(target=lambda: print('waited for')).start()",
    ],
)
def test_every_end_is_the_same(tmp_path: Path, cold: Callable[[], None], program: str) -> None:
    first = run(tmp_path, program)
    cold()
    assert {**first, "forked": False} == run(tmp_path, program)


@pytest.mark.parametrize("program", ["raise ValueError('so')", "import no_such_module", "raise KeyboardInterrupt", "("])
def test_a_failure_is_printed_and_is_the_code(tmp_path: Path, cold: Callable[[], None], program: str) -> None:
    first = run(tmp_path, program)
    cold()
    second = run(tmp_path, program)
    assert first["code"] == second["code"] != 0
    assert first["err"].splitlines()[-1] == second["err"].splitlines()[-1]


def test_what_is_more_than_a_pipe_holds_goes_in_and_comes_out(tmp_path: Path, cold: Callable[[], None]) -> None:
    (tmp_path / "probe.py").write_text(
        "import sys; text = sys.stdin.read(); print(text); print(text + '\\r\\n', file=sys.stderr); sys.exit(3)"
    )

    def ran() -> subprocess.CompletedProcess[str]:
        return forked.run("probe", ["1"], cwd=tmp_path, env=ENVIRONMENT, stdin="ü\n" * 100_000, timeout=20)

    first = ran()
    cold()
    second = ran()
    assert vars(first) == vars(second)
    assert first.stdout == "ü\n" * 100_000 + "\n"


def test_what_does_not_end_in_time_is_killed(tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text("import os; os.read(os.pipe()[0], 1)")
    process = start("probe", cwd=tmp_path, env=ENVIRONMENT)
    assert isinstance(process, Forked)
    with pytest.raises(subprocess.TimeoutExpired):
        process.communicate(b"", 0.1)
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_it_and_whoever_waits_is_told(tmp_path: Path, sent: int) -> None:
    program = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_DFL); print(1, flush=True); time.sleep(60)"
    (tmp_path / "probe.py").write_text(program)
    process = start("probe", cwd=tmp_path, env=ENVIRONMENT)
    assert isinstance(process, Forked)
    with process.stdin, process.stdout, process.stderr:
        assert process.stdout.read(2) == b"1\n"
        codes: list[int] = []
        waiting = [threading.Thread(target=lambda: codes.append(process.wait())) for _ in range(3)]
        for one in waiting:
            one.start()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        assert process.poll() is None
        process.send_signal(sent)
        for one in waiting:
            one.join(10)
        assert codes == [-sent] * 3 == [process.poll()] * 3
        process.send_signal(sent)  # to nobody
        with pytest.raises(ProcessLookupError):
            os.kill(process.pid, 0)


@pytest.mark.parametrize(
    "more",
    [
        {"PYTHONUTF8": "0"},
        {"LC_ALL": "C"},
        {"LANG": "C"},
        {"OPENAI_LOG": "debug"},
        {"COVERAGE_RUN": "1"},
        {"LONG": "x" * 100_000},
    ],
)
def test_what_is_read_while_an_interpreter_or_an_sdk_is_loaded_begins_anew(
    tmp_path: Path, more: dict[str, str]
) -> None:
    assert not run(tmp_path, "", env={**ENVIRONMENT, **more})["forked"]


def test_a_variable_that_is_missing_begins_anew(tmp_path: Path) -> None:
    assert not run(tmp_path, "", env={name: value for name, value in ENVIRONMENT.items() if name != "LANG"})["forked"]
