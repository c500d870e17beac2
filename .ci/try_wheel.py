"""Installs the wheel in dist/ into fresh environments, and tries it there as a user
does.

    python .ci/try_wheel.py UV

On the oldest Python that the wheel names, and on the newest of those that this machine
has; at the same time. What they depend on is what .ci/requirements.txt pins.
"""

from __future__ import annotations

import email
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK = ROOT / ".ci" / "requirements.txt"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": 1, "clientCapabilities": {}},
}


def main(uv: Path) -> int:
    [wheel] = (ROOT / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        [name] = (
            name for name in archive.namelist() if name.endswith(".dist-info/METADATA")
        )
        metadata = email.message_from_bytes(archive.read(name))
    named = re.findall(
        r"Python :: (3\.\d+)$",
        "\n".join(metadata.get_all("Classifier", [])),
        re.MULTILINE,
    )
    there = {version: python for version in named if (python := interpreter(version))}
    if named[0] not in there:
        print(
            f"Python {named[0]}, the oldest that the wheel names, is not on this machine.",
            file=sys.stderr,
        )
        return 1
    newest = [*there][-1]
    if newest != named[-1]:
        print(
            f"Python {named[-1]}, the newest that the wheel names, is not on this machine: {newest} is tried instead."
        )
    with ThreadPoolExecutor() as threads:
        versions = dict.fromkeys((named[0], newest))
        tried = [
            threads.submit(try_on, uv, there[version], wheel, metadata["Version"])
            for version in versions
        ]
        for version, each in zip(versions, tried, strict=True):
            print(f"{wheel.name} on Python {version}: {each.result()}", flush=True)
    return 0


def interpreter(version: str) -> Path | None:
    """The path of an interpreter of this version, on the PATH or where pyenv keeps
    those that are not.
    """
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    found = shutil.which(f"python{version}")
    for path in [
        sys.executable,
        *([found] if found else []),
        *pyenv.glob(f"{version}.*/bin/python"),
    ]:
        command = [path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        if (
            subprocess.run(
                command, capture_output=True, text=True, check=False
            ).stdout.strip()
            == version
        ):
            return Path(path)
    return None


def try_on(uv: Path, python: Path, wheel: Path, version: str) -> str:
    """Install the wheel, and what it needs, into an environment of this interpreter,
    and use it.

    :returns: what was done, in words.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "venv")
        run(uv, "venv", "--quiet", "--python", python, place)
        install = (
            uv,
            "pip",
            "install",
            "--quiet",
            "--python",
            place / "bin" / "python",
        )
        run(*install, "--require-hashes", "--requirement", LOCK)
        run(*install, wheel)
        installed = time.monotonic()
        env = {
            "PATH": f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "HOME": folder,
            "LANG": "C.UTF-8",
        }
        pages = {"compaction", "doctor", "trust"}
        expect(
            run("acp-agent", "--version", env=env) == f"acp-agent {version}\n",
            "--version",
        )
        expect(pages <= set(run("acp-agent", "help", env=env).split()), "help")
        expect(
            run("acp-agent", "help", "doctor", env=env).startswith("# "), "help doctor"
        )
        for program in ("acp-agent", "acp-agent-server"):
            answer = json.loads(
                run(program, env=env, stdin=json.dumps(INITIALIZE) + "\n")
            )
            expect(
                answer["result"]["agentInfo"]["version"] == version,
                f"initialize with {program}",
            )
        expect("compact" in run("acp-agent", "demo", env=env), "demo")
        used = time.monotonic() - installed
    return f"--version, help, initialize, demo ({installed - began:.0f} s to install, {used:.0f} s to try)"


def run(
    *command: str | Path, env: dict[str, str] | None = None, stdin: str = ""
) -> str:
    """Run a command that must succeed.

    :returns: what it printed.
    """
    done = subprocess.run(
        command,
        env=env,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=tempfile.gettempdir(),
    )
    expect(
        done.returncode == 0,
        f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}",
    )
    return done.stdout


def expect(right: bool, what: str) -> None:
    if not right:
        sys.exit(f"The wheel fails: {what}")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))
