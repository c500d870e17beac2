"""Finds the project files that the project's hooks run, by reading the hooks' source.

Only running a program shows which files it really uses, so this module overestimates.
It finds every code file of the project to which a path, a module name or a command in a
hook leads, and searches that file in the same way. Files that a script runs or reads
are included whatever their suffix. For a shell script, these are all files that its
commands name and do not write. Installed packages are not searched, except for the
programs that they put into `node_modules/.bin` or a virtual environment.

Python searches a script's folder before the standard library. So a file in that folder
with the name of a standard module is included too, even if nothing mentions it. For
example, `import json` also imports `re`.

Source: python(1), `sys.path`; importlib; nodejs.org/api/modules, "All together";
npm-run(1); make(1); execve(2)
"""

from __future__ import annotations

import os
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from acp_agent.config.program_files import CONFIGURATION, READ_BY
from acp_agent.config.script_reads import (
    folders_of_modules,
    names_read,
    names_written,
    perl_modules,
    words_of_commands,
)
from acp_agent.frozen import frozen
from acp_agent.regular import open_regular

MAX_CALLED = 300
"""The largest number of files returned. Files that the hooks name directly come first."""
MAX_TEXT = 256 * 1024
"""How many bytes of each file are searched."""
_MAX_NAMES = 50_000
"""Maximum number of names to look up, for all texts together."""
_MAX_BASES = 16
"""Maximum number of folders in which each name in a text is looked up."""
_MAX_SHARED = 4
"""How many of these folders may contain modules for all programs."""

_WORD = re.compile(r"[^\s\"'`$(){}\[\]<>|&;:=,*?!#%^\\]+")
_QUOTED = (re.compile(r"\"([^\"\n]{1,300})\""), re.compile(r"'([^'\n]{1,300})'"))
_IMPORT = re.compile(
    r"(?:^|[;'\"])[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import|import[ \t]+([\w., \t]+))",
    re.MULTILINE,
)
_MODULE = re.compile(
    r"-m[ \t\"',]*([\w.]+)|(?:import_module|run_module|__import__)\([ \t]*[\"']([\w.]+)"
)
_PYTHON = re.compile(r"\bpython|\bpypy|\brunpy\b")
_UPWARDS = re.compile(
    r"\.\.|\.parent\b|\.parents\b|\bdirname\b|\bpardir\b|\brealpath\b"
)
"""Matches expressions with which a file refers to a folder above its own."""
_MAX_ABOVE = 4
"""Maximum number of folders above a file's own in which its names are looked up."""
_SUFFIXES = frozenset(
    (
        ".py", ".pyw", ".pth", ".sh", ".bash", ".zsh", ".fish", ".ksh", ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts",
        ".jsx", ".tsx", ".rb", ".pl", ".pm", ".php", ".lua", ".awk", ".sed", ".tcl", ".r", ".jl", ".ps1", ".mk",
        ".nix", ".gradle", ".kts", ".groovy", ".clj", ".exs", ".ex", ".el", ".vim", ".go", ".rs",
    )
)  # fmt: skip
_SCRIPT_SUFFIXES = (
    ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".json", ".node", ".rb", ".pl", ".lua", ".php", "/index.js",
    "/index.ts", "/index.mjs", "/package.json",
)  # fmt: skip
"""Suffixes that a name in an import may lack."""
_SHELL_SUFFIXES = frozenset((".sh", ".bash", ".zsh", ".ksh", ".fish"))
_SHELLS = re.compile(r"#![^\n]{0,200}\b(?:ba|da|z|k|fi)?sh\b")
_MODULE_SUFFIXES = (".py", ".pyc", ".so", ".pyd")
_PYTHON_FILES = (".py", ".pyw")
_STANDARD = sys.stdlib_module_names | {"sitecustomize", "usercustomize"}
_MODULE_VARIABLES = ("PYTHONPATH", "NODE_PATH", "RUBYLIB", "PERL5LIB")
"""Variables that list folders in which programs look for modules."""
_SETTINGS = (
    ".json", ".toml", ".yaml", ".yml", ".ini", ".cfg", ".xml", ".mk", ".properties", ".md", ".txt",
)  # fmt: skip
"""Suffixes of files that mention names without reading the files."""


@frozen
class ProgramText:
    """A command line, or the content of a file that runs programs.

    :ivar folder: another folder, besides the project, that relative names may start
        from; None for a command line.
    :ivar path: the file; None for a command line.
    """

    content: str
    folder: Path | None = None
    path: Path | None = None

    @property
    def is_python(self) -> bool:
        """Return whether this is a Python file, or mentions Python."""
        is_file = self.path is not None and self.path.suffix in _PYTHON_FILES
        return is_file or _PYTHON.search(self.content) is not None

    @property
    def is_script(self) -> bool:
        """Return whether this is a command line or a script, rather than a file that
        configures a program.
        """
        return self.path is None or (
            self.path.name not in CONFIGURATION and self.path.suffix not in _SETTINGS
        )

    @property
    def is_shell(self) -> bool:
        """Return whether this is, or may be, a command line or a shell script."""
        if self.path is None or self.path.suffix in _SHELL_SUFFIXES:
            return True
        if self.content.startswith("#!"):
            return _SHELLS.match(self.content) is not None
        return not self.path.suffix and self.path.name not in CONFIGURATION


@frozen
class Called:
    """The result of `called_files`.

    :ivar files: code files in the project, in breadth-first order; at most
        `MAX_CALLED`.
    :ivar folders: the folders that were listed. If one of them changes, the result may
        change.
    :ivar beside: modules and packages of which only the names matter, since ordinary
        work changes their content.
    """

    files: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = ()
    beside: tuple[Path, ...] = ()


def called_files(
    project: Path, texts: Iterable[ProgramText], cwd: Path | None = None
) -> Called:
    """Return the project's code files that these texts run, directly or indirectly.

    Reads files, so call it in a worker thread.

    :param project: the project's folder.
    :param cwd: the working directory of the texts' programs; the project's folder if
        None.
    """
    places = _Places(
        project, cwd if cwd is not None and cwd.is_relative_to(project) else project
    )
    waiting = deque(texts)
    found: dict[Path, None] = {}
    while waiting and len(found) < MAX_CALLED:
        for path in places.named_in(waiting.popleft()):
            if path in found:
                continue
            found[path] = None
            if len(found) >= MAX_CALLED:
                break
            if text := _text_of(path):
                waiting.append(ProgramText(text, path.parent, path))
    beside = places.beside
    return Called(tuple(found), places.looked_in, beside)


class _Places:
    """Looks names up in a project, and lists each folder at most once."""

    def __init__(self, project: Path, cwd: Path) -> None:
        self._project = project
        self._cwd = cwd
        self._names: dict[Path, frozenset[str]] = {}
        self._shared: dict[Path, None] = {}
        for variable in _MODULE_VARIABLES:
            for each in os.environ.get(variable, "").split(os.pathsep):
                folder = Path(os.path.normpath(each))
                if folder.is_relative_to(project):
                    self._shared[folder] = None
        self._stems: dict[Path, frozenset[str]] = {}
        self._runs_modules = False
        self._is_searched_first = False
        self._left = _MAX_NAMES
        places = map(Path, os.environ.get("PATH", "").split(os.pathsep))
        self._programs = tuple(each for each in places if each.is_relative_to(project))

    @property
    def looked_in(self) -> tuple[Path, ...]:
        """Return the folders that were listed. For a folder that does not exist, its
        nearest parent is included too.
        """
        return tuple(self._names)

    @property
    def beside(self) -> tuple[Path, ...]:
        """Return the modules and packages in the working directory and the project's
        folder, if `python -m` runs a module that imports packages from outside the
        project.

        Python would import them instead of modules of the same name that those packages
        need.
        """
        if not self._is_searched_first:
            return ()
        folders = dict.fromkeys((self._cwd, self._project))
        found = (
            folder / name
            for folder in folders
            for name in sorted(self._listed(folder))
            if _is_module(name) or self._is_package(folder / name)
        )
        return tuple(islice(found, MAX_CALLED))

    def _is_package(self, folder: Path) -> bool:
        return "." not in folder.name and any(
            _is_module(name, "__init__") for name in self._listed(folder)
        )

    def named_in(self, text: ProgramText) -> Iterator[Path]:
        """Yield the code files that a text names."""
        words, globs = _words_of(text.content)
        quoted = [each for pattern in _QUOTED for each in pattern.findall(text.content)]
        if any(by_option for by_option, _ in _MODULE.findall(text.content)):
            self._runs_modules = True
        names = list(dict.fromkeys((*words, *quoted)))[: self._left]
        self._left -= len(names)
        bases = self._bases(text, names)
        for name in names:
            for base in bases:
                yield from self._code_at(base, name)
        if text.is_script:
            yield from self._read(text, bases)
        yield from self._modules(text, words, bases)
        if text.is_python:
            yield from self._shadows(text, bases)
        yield from self._read_by(words, bases)
        for folder in globs:
            for base in bases:
                yield from self._code_in(base, folder)

    def _bases(self, text: ProgramText, names: Iterable[str]) -> tuple[Path, ...]:
        """Return the folders in which to look up names, including folders that the text
        names, since a script may join a folder and a name.
        """
        self._share(text)
        bases = dict.fromkeys((self._cwd, self._project, *self._shared))
        if text.folder is not None:
            bases[text.folder] = None
            if text.is_python and _UPWARDS.search(text.content):
                above = text.folder.parents[:_MAX_ABOVE]
                bases.update(
                    (each, None) for each in above if each.is_relative_to(self._project)
                )
        for name in names:
            for base in tuple(bases):
                folder = self._below(base, name)
                if len(bases) < _MAX_BASES and folder is not None and folder.is_dir():
                    bases[folder] = None
        return tuple(bases)

    def _share(self, text: ProgramText) -> None:
        """Remember the folders that a text sets as module folders for its programs."""
        for name in folders_of_modules(text.content):
            relative = name
            if "$" in name:  # a variable, which may be any folder
                relative = name.rpartition("$")[2].partition("/")[2]
            folder = self._below(self._cwd, relative)
            if folder is None or not folder.is_dir():
                continue
            if len(self._shared) < _MAX_SHARED:
                self._shared[folder] = None

    def _read(self, text: ProgramText, bases: Iterable[Path]) -> Iterator[Path]:
        """Yield the files that a script runs or reads, whatever their suffix."""
        names: dict[str, None] = {}
        for piece in names_read(text.content):
            names[piece] = None
            names.update(_words_of(piece)[0])
        mentioned: dict[str, None] = {}
        if text.is_shell:
            for word in words_of_commands(text.content):
                mentioned[word] = None
                mentioned.update(_words_of(word)[0])
        for written in names_written(text.content):
            for name in (written, *_words_of(written)[0]):
                names.pop(name, None)
                mentioned.pop(name, None)
        found = list(names)[: self._left]
        self._left -= len(found)
        more = [name for name in mentioned if name not in names][: self._left]
        self._left -= len(more)
        for base in bases:
            for name in found:
                if not self._may_exist(base, name):
                    continue
                if (path := self._file_at(base, name)) is not None:
                    yield path
                for suffix in _SCRIPT_SUFFIXES:
                    if (longer := self._file_at(base, f"{name}{suffix}")) is not None:
                        yield longer
            for name in more:
                if (path := self._file_at(base, name)) is not None:
                    yield path
            for module in perl_modules(text.content):
                for place in (base, base / "lib"):
                    if (path := self._file_at(place, module)) is not None:
                        yield path

    def _may_exist(self, base: Path, name: str) -> bool:
        """Return whether a folder has an entry with the first part of a name, whatever
        its suffix.
        """
        first = name.lstrip("/").partition("/")[0]
        if first in (".", "..", ""):
            return True
        if base not in self._stems:
            self._stems[base] = frozenset(
                each.partition(".")[0] for each in self._listed(base)
            )
        return (
            name.startswith(str(self._project))
            or first.partition(".")[0] in self._stems[base]
        )

    def _file_at(self, base: Path, name: str) -> Path | None:
        path = self._below(base, name)
        return path if path is not None and path.is_file() else None

    def _code_at(self, base: Path, name: str) -> Iterator[Path]:
        """Yield the file at a path. The suffix may be missing, as in a JavaScript
        import.
        """
        path = self._below(base, name)
        if path is not None and path.is_file():
            if _is_code(path):
                yield path
                yield from self._environment_of(path)
        elif "/" in name or name in (".", ".."):
            for suffix in _SCRIPT_SUFFIXES:
                if (longer := self._file_at(base, f"{name}{suffix}")) is not None:
                    yield longer

    def _code_in(self, base: Path, name: str) -> Iterator[Path]:
        folder = self._below(base, name)
        if folder is not None and folder.is_dir():
            yield from (
                path
                for path in map(folder.joinpath, sorted(self._listed(folder)))
                if _is_code(path)
            )

    def _environment_of(self, program: Path) -> Iterator[Path]:
        """Yield the files that the interpreter of a virtual environment runs when it
        starts.
        """
        root = program.parent.parent
        if "pyvenv.cfg" in self._listed(root):
            yield root / "pyvenv.cfg"
            for packages in root.glob("lib/python*/site-packages"):
                listed = sorted(self._listed(packages))
                yield from (
                    packages / name
                    for name in listed
                    if name.endswith(".pth")
                    or name in ("sitecustomize.py", "usercustomize.py")
                )

    def _modules(
        self, text: ProgramText, words: Iterable[str], bases: Iterable[Path]
    ) -> Iterator[Path]:
        """Yield the modules that a text imports or passes to `python -m`."""
        modules: dict[str, None] = {}
        for one, other in _MODULE.findall(text.content):
            modules[one or other] = None
        for one, several in _IMPORT.findall(text.content):
            for each in (one or several).split(","):
                modules.update(dict.fromkeys(each.split()[:1]))
        places = [
            place
            for base in bases
            for place in (base, base / "src")
            if place == base or place.is_dir()
        ]
        for module in modules:
            for place in places:
                yield from self._module(place, module.strip("."), words)
        if _PYTHON.search(text.content):
            yield from (
                path for base in bases if (path := base / "__main__.py").is_file()
            )

    def _module(self, place: Path, module: str, words: Iterable[str]) -> Iterator[Path]:
        """Yield the files of a module, of the packages around it, and of its submodules
        that the text mentions.
        """
        for part in module.split(".") if module else ():
            listed = self._listed(place)
            yield from (
                place / name for name in sorted(listed) if _is_module(name, part)
            )
            if part not in listed:
                return
            place = place / part
            listed = self._listed(place)
            yield from (
                place / name
                for name in sorted(listed)
                if _is_module(name, "__init__", "__main__")
            )
        listed = self._listed(place)
        yield from (
            place / name
            for name in sorted(listed)
            if name.partition(".")[0] in words and _is_module(name)
        )

    def _shadows(self, text: ProgramText, bases: Iterable[Path]) -> Iterator[Path]:
        """Yield the modules that Python would import instead of those that a script
        intends to import.

        If the script imports packages from outside the project, those packages may
        import any other module, so every module in the script's folder is included. For
        a module that `python -m` runs, Python searches the working directory instead
        (see `beside`).
        """
        if self._runs_modules and self._imports_packages(text, self._cwd):
            self._is_searched_first = True
        for base in bases:
            listed = self._listed(base)
            is_open = base == text.folder and self._imports_packages(text, base)
            for name in sorted(listed):
                stem = name.partition(".")[0]
                if stem not in _STANDARD and not is_open:
                    continue
                if _is_module(name):
                    yield base / name
                elif name == stem and "." not in name:
                    inner = base / name
                    yield from (
                        inner / each
                        for each in sorted(self._listed(inner))
                        if _is_module(each, "__init__")
                    )

    def _imports_packages(self, text: ProgramText, folder: Path) -> bool:
        """Return whether a Python file imports anything that is neither a standard
        module nor in its folder.
        """
        if text.path is None or text.path.suffix not in _PYTHON_FILES:
            return False
        here = {name.partition(".")[0] for name in self._listed(folder)} | _STANDARD
        for one, several in _IMPORT.findall(text.content):
            for each in (one or several).split(","):
                top = each.strip().partition(" ")[0].partition(".")[0]
                if top and top not in here:
                    return True
        return False

    def _read_by(self, words: Iterable[str], bases: Iterable[Path]) -> Iterator[Path]:
        """Yield the files that programs with these names read, and programs from the
        project's own packages.

        :param bases: the folders in which the programs may run, as in `make -C tools`.
        """
        for word in words:
            program = word.rpartition("/")[2]
            for base in bases:
                yield from (
                    base / name
                    for name in READ_BY.get(program, ())
                    if (base / name).is_file()
                )
                if program in self._listed(base / "node_modules" / ".bin"):
                    yield base / "node_modules" / ".bin" / program
            for folder in self._programs:
                if word in self._listed(folder):
                    yield folder / word
                    yield from self._environment_of(folder / word)

    def _below(self, base: Path, name: str) -> Path | None:
        """Return the path of a name in the project, or None if it is outside the
        project or cannot exist.

        Most words are not file names, and for those this does not access the disk.
        """
        if "\0" in name or len(name) > 1000:
            return None
        if name.startswith(str(self._project)):
            relative = os.path.normpath(name)
        else:
            first = name.lstrip("/").partition("/")[0]
            if first not in (".", "..", "") and first not in self._listed(base):
                return None
            relative = os.path.normpath(base / name.lstrip("/"))
        path = Path(relative)
        return (
            path
            if path != self._project and path.is_relative_to(self._project)
            else None
        )

    def _listed(self, folder: Path) -> frozenset[str]:
        if folder not in self._names:
            try:
                self._names[folder] = frozenset(os.listdir(folder))  # noqa: PTH208 - names, and no paths
            except (OSError, ValueError):
                self._names[folder] = frozenset()
        return self._names[folder]


def _words_of(text: str) -> tuple[dict[str, None], dict[str, None]]:
    """Return the words of a text, and those words that are folders followed by a
    wildcard.
    """
    words: dict[str, None] = {}
    globs: dict[str, None] = {}
    for found in _WORD.finditer(text):
        word = found[0]
        words[word] = None
        # A variable, which may be any folder.
        if text.startswith("$", found.start() - 1):
            words[word.partition("/")[2] or word] = None
        if word.endswith("/") and text.startswith("*", found.end()):
            globs[word] = None
    return words, globs


def _is_module(name: str, *stems: str) -> bool:
    """Return whether Python may import a file with this name as one of these modules,
    or as any module if none is given.
    """
    return name.endswith(_MODULE_SUFFIXES) and (
        not stems or name.partition(".")[0] in stems
    )


def _is_code(path: Path) -> bool:
    """Return whether a file can be run, or tells a program what to run."""
    try:
        if not path.is_file():
            return False
        if (
            path.suffix.lower() in _SUFFIXES
            or path.name in CONFIGURATION
            or os.access(path, os.X_OK)
        ):
            return True
        with open_regular(path) as file:
            return file.read(2) == b"#!"
    except (OSError, ValueError):
        return False


def _text_of(path: Path) -> str:
    """Return the content of a text file; empty for a binary or unreadable file."""
    try:
        with open_regular(path) as file:
            content = file.read(MAX_TEXT)
    except (OSError, ValueError):
        return ""
    return "" if b"\0" in content else content.decode("utf-8", "replace")
