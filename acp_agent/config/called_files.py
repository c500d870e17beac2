"""Finds the project files that the project's hooks run, by reading the hooks' source.

Only running a program shows what it runs, so this module overestimates: any path,
module or command in a hook that leads to a code file of the project counts, and that
file is searched in the same way. Installed packages are not searched, except for the
programs that they put into `node_modules/.bin` or a virtual environment.

Source: python(1), `sys.path`; importlib; nodejs.org/api/modules, "All together";
npm-run(1); make(1); execve(2)
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

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
_SUFFIXES = frozenset(
    (
        ".py", ".pyw", ".pth", ".sh", ".bash", ".zsh", ".fish", ".ksh", ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts",
        ".jsx", ".tsx", ".rb", ".pl", ".pm", ".php", ".lua", ".awk", ".sed", ".tcl", ".r", ".jl", ".ps1", ".mk",
        ".nix", ".gradle", ".kts", ".groovy", ".clj", ".exs", ".ex", ".el", ".vim", ".go", ".rs",
    )
)  # fmt: skip
_SCRIPT_SUFFIXES = (
    "",
    ".js",
    ".mjs",
    ".cjs",
    ".ts",
    ".mts",
    ".cts",
    ".json",
    "/index.js",
    "/index.ts",
    "/index.mjs",
)
_NODE = ("package.json", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs")
_PYPROJECT = ("pyproject.toml",)
_GRADLE = (
    "gradlew", "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts",
    "gradle/wrapper/gradle-wrapper.properties", "gradle/wrapper/gradle-wrapper.jar",
)  # fmt: skip
_MAVEN = (
    "pom.xml",
    ".mvn/extensions.xml",
    ".mvn/jvm.config",
    ".mvn/maven.config",
    ".mvn/wrapper/maven-wrapper.jar",
)
_ESLINT = (
    "eslint.config.js", "eslint.config.mjs", "eslint.config.cjs", "eslint.config.ts", ".eslintrc.js", ".eslintrc.cjs",
)  # fmt: skip
_PRETTIER = (
    "prettier.config.js", "prettier.config.mjs", "prettier.config.cjs", ".prettierrc.js", ".prettierrc.mjs",
    ".prettierrc.cjs",
)  # fmt: skip
_READ_BY: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("make", "gmake"), ("GNUmakefile", "makefile", "Makefile")),
    **dict.fromkeys(
        ("npm", "npx", "pnpm", "pnpx", "yarn", "bun", "bunx", "node", "corepack"), _NODE
    ),
    **dict.fromkeys(("uv", "uvx", "poetry", "hatch", "pdm", "rye", "pipx"), _PYPROJECT),
    **dict.fromkeys(
        ("pytest", "py.test"),
        ("conftest.py", "pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml"),
    ),
    **dict.fromkeys(("invoke", "inv", "fab"), ("tasks.py", "fabfile.py")),
    **dict.fromkeys(("gradle", "gradlew"), _GRADLE),
    **dict.fromkeys(("mvn", "mvnw"), _MAVEN),
    **dict.fromkeys(("pre-commit", "prek"), (".pre-commit-config.yaml",)),
    **dict.fromkeys(("mise", "rtx"), ("mise.toml", ".mise.toml")),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "rake": ("Rakefile",),
    "bundle": ("Gemfile",),
    "composer": ("composer.json",),
    "tox": ("tox.ini", "pyproject.toml"),
    "nox": ("noxfile.py",),
    "lefthook": ("lefthook.yml", ".lefthook.yml"),
    "cargo": ("Cargo.toml", "build.rs", ".cargo/config.toml", ".cargo/config"),
    "deno": ("deno.json", "deno.jsonc"),
    "eslint": _ESLINT,
    "prettier": _PRETTIER,
    "direnv": (".envrc",),
    "nix": ("flake.nix",),
}
"""For each program, the files that it reads to find out what to run."""
_CONFIGURATION = frozenset(name for names in _READ_BY.values() for name in names)


@frozen
class ProgramText:
    """A command line, or the content of a file that runs programs.

    :ivar folder: another folder, besides the project, that relative names may start
        from; None for a command line.
    """

    content: str
    folder: Path | None = None


@frozen
class Called:
    """The result of `called_files`.

    :ivar files: code files in the project, in breadth-first order; at most
        `MAX_CALLED`.
    :ivar folders: the folders that were listed. If one of them changes, the result may
        change.
    """

    files: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = ()


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
                waiting.append(ProgramText(text, path.parent))
    return Called(tuple(found), places.looked_in)


class _Places:
    """Looks names up in a project, and lists each folder at most once."""

    def __init__(self, project: Path, cwd: Path) -> None:
        self._project = project
        self._cwd = cwd
        self._names: dict[Path, frozenset[str]] = {}
        self._left = _MAX_NAMES
        places = map(Path, os.environ.get("PATH", "").split(os.pathsep))
        self._programs = tuple(each for each in places if each.is_relative_to(project))

    @property
    def looked_in(self) -> tuple[Path, ...]:
        """Return the folders that were listed. For a folder that does not exist, its
        nearest parent is included too.
        """
        return tuple(self._names)

    def named_in(self, text: ProgramText) -> Iterator[Path]:
        """Yield the code files that a text names."""
        words, globs = _words_of(text.content)
        names = dict.fromkeys(
            (
                *words,
                *(each for quoted in _QUOTED for each in quoted.findall(text.content)),
            )
        )
        names = list(names)[: self._left]
        self._left -= len(names)
        bases = self._bases(text, names)
        for name in names:
            for base in bases:
                yield from self._code_at(base, name)
        yield from self._modules(text, words, bases)
        yield from self._read_by(words)
        for folder in globs:
            for base in bases:
                yield from self._code_in(base, folder)

    def _bases(self, text: ProgramText, names: Iterable[str]) -> tuple[Path, ...]:
        """Return the folders in which to look up names, including folders that the text
        names: it may join the two.
        """
        bases = dict.fromkeys((self._cwd, self._project))
        if text.folder is not None:
            bases[text.folder] = None
        for name in names:
            for base in (self._cwd, self._project, text.folder or self._project):
                folder = self._below(base, name)
                if len(bases) < _MAX_BASES and folder is not None and folder.is_dir():
                    bases[folder] = None
        return tuple(bases)

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
            for suffix in _SCRIPT_SUFFIXES[1:]:
                longer = self._below(base, f"{name}{suffix}")
                if longer is not None and longer.is_file():
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
        for part in module.split("."):
            listed = self._listed(place)
            if f"{part}.py" in listed:
                yield place / f"{part}.py"
            if part not in listed:
                return
            place = place / part
            listed = self._listed(place)
            yield from (
                place / name
                for name in ("__init__.py", "__main__.py")
                if name in listed
            )
        yield from (
            place / f"{word}.py"
            for word in words
            if f"{word}.py" in self._listed(place)
        )

    def _read_by(self, words: Iterable[str]) -> Iterator[Path]:
        """Yield the files that programs with these names read, and programs from the
        project's own packages.
        """
        for word in words:
            program = word.rpartition("/")[2]
            for base in dict.fromkeys((self._cwd, self._project)):
                yield from (
                    base / name
                    for name in _READ_BY.get(program, ())
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
        if text.startswith(
            "$", found.start() - 1
        ):  # a variable, which may be any folder
            words[word.partition("/")[2] or word] = None
        if word.endswith("/") and text.startswith("*", found.end()):
            globs[word] = None
    return words, globs


def _is_code(path: Path) -> bool:
    """Return whether a file can be run, or tells a program what to run."""
    try:
        if not path.is_file():
            return False
        if (
            path.suffix.lower() in _SUFFIXES
            or path.name in _CONFIGURATION
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
