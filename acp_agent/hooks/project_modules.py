"""Imports modules of a trusted project for its Python hooks, which run inside the agent.

A sandboxed command can write to the project. So a hook imports exactly the source that
the user trusted: no bytecode from `__pycache__`, no extension module, and no file that
was changed or created since then. The project's folders are never added to the agent's
own `sys.path`, since the agent's next import could then find a planted `xml.py`.

A hook's imports are separate from the agent's. A project's modules have their own
`__import__`, `exec`, `eval` and `compile` among their built-in names (see
`trusted_code`), their own `sys.path`, and their own versions of standard modules that
load files (see `replaced_modules`). In `sys.modules`, the names of a project's modules
have a prefix that no other import can use.

Source: Python's documentation, "The import system"; `builtins.__import__`;
`importlib._bootstrap_external`, for the order in which packages, extension modules,
sources and bytecode in a folder are found
"""

from __future__ import annotations

import builtins
import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, all_suffixes
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn, cast

from acp_agent.hooks.replaced_modules import Location, replaced_modules
from acp_agent.hooks.trusted_code import TrustedCode
from acp_agent.programs import search_path
from acp_agent.regular import open_regular

_ROOT = "acp_agent_hooks:"
"""Prefix of the names of projects' modules. It cannot occur in an import statement."""


class ProjectModules:
    """The modules that one hook of a project can import.

    :param hook: path of the hook's file.
    :param project: the project's folder.
    :param sources: the hex SHA-256 of each trusted file, by its path with links
        resolved.
    :ivar prefix: the package that contains the modules in `sys.modules`.
    :ivar builtins: the built-in names of the hook and of these modules.
    :ivar path: the hook's own `sys.path`.
    """

    def __init__(self, hook: Path, project: Path, sources: Mapping[str, str]) -> None:
        self.prefix = _FINDER.prefix_of(hook)
        self._given = os.path.abspath(project)  # noqa: PTH100 - a string
        self._project = os.path.realpath(project)
        self._sources = sources
        self.path = list(sys.path)
        self.builtins: dict[str, Any] = {**vars(builtins), "__import__": self._import}
        self._code = TrustedCode(sources.values(), self.builtins)
        self.builtins.update(self._code.names)
        self._replaced = replaced_modules(self)
        _FINDER.add(self)

    def source_of(self, path: Path | str) -> bytes:
        """Return the content of a trusted file.

        :raises ImportError: if the file does not have the content that the user
            trusted.
        """
        content = None
        with suppress(OSError, ValueError), open_regular(Path(path)) as file:
            content = file.read()
        if content is None or hashlib.sha256(content).hexdigest() != self._sources.get(
            os.path.realpath(path)
        ):
            raise ImportError(_untrusted_error(path), path=str(path))
        self._code.add(content)
        return content

    def run(self, path: Location, names: dict[str, Any]) -> None:
        """Run the trusted source of a file.

        :param names: the global names of the code.
        :raises ImportError: if the file is not the source that the user trusted.
        """
        text = os.fspath(path)
        code = compile(self.source_of(text), text, "exec", dont_inherit=True)
        names["__builtins__"] = self.builtins
        exec(code, names)

    def source_loader(self, name: str, path: Location) -> Loader:
        """Return a loader for a file of the project.

        :param name: the hook's name of the module.
        """
        return _SourceLoader(self, os.fspath(path), name)

    def file_of(self, module: str) -> str | None:
        """Return the trusted file of a top-level module of the project, or None."""
        before, after = self._added()
        return next(self._regular(module, (*before, *after)), None)

    def is_loaded_from_source(self, path: Location) -> bool:
        """Return whether a file belongs to the project, so that only its trusted source
        may be loaded.

        :raises ImportError: if the file does not belong to the project, and others can
            write to its folder.
        """
        given: str = os.fspath(path)
        text = os.path.abspath(given)  # noqa: PTH100 - a string
        if self._is_in_project(text) or text.startswith(f"{self._given}{os.sep}"):
            return True
        if not search_path(os.path.dirname(os.path.realpath(text))):  # noqa: PTH120 - likewise
            raise ImportError(_untrusted_error(text), path=text)
        return False

    def refuse_file(self, path: Location) -> None:
        """Check that a file in a format other than source may be loaded.

        :raises ImportError: if the file belongs to the project, or if others can write
            to its folder.
        """
        if self.is_loaded_from_source(path):
            raise ImportError(_untrusted_error(os.fspath(path)), path=os.fspath(path))

    def import_module(self, name: str, package: str | None = None) -> ModuleType:
        """Import a module like `importlib.import_module`, but also find trusted modules
        of the project.
        """
        if name.startswith("."):
            return importlib.import_module(name, package)
        return self._import(name, fromlist=("__name__",))

    def spec_of(self, name: str, folders: Iterable[str] | None) -> ModuleSpec | None:
        """Return the spec of a module of the project, or None if there is no such
        trusted module.

        :param name: the module's full name in `sys.modules`.
        :param folders: the folders to search; None for the hook's own `sys.path`.
        """
        last = name.rpartition(".")[2]
        places = (
            [*self._added()[0], *self._added()[1]] if folders is None else list(folders)
        )
        if path := next(self._regular(last, places), None):
            inner = None
            if path.endswith("/__init__.py"):
                inner = [os.path.dirname(path)]  # noqa: PTH120 - a string
            return importlib.util.spec_from_file_location(
                name,
                path,
                loader=_SourceLoader(self, path, name),
                submodule_search_locations=inner,
            )
        spaces = list(self._namespaces(last, places))
        if spaces:
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = spaces
            return spec
        return None

    def refuse(self, name: str, folders: Iterable[str]) -> NoReturn:
        """Raise the error for a module that is not among the trusted sources.

        :param name: the module's full name in `sys.modules`.
        :param folders: the folders that were searched.
        :raises ModuleNotFoundError: if there is no file that Python would load.
        :raises ImportError: if there is such a file; the error names it.
        """
        if untrusted := next(self._untrusted(name.rpartition(".")[2], folders), None):
            raise ImportError(_untrusted_error(untrusted), name=name, path=untrusted)
        raise ModuleNotFoundError(
            f"No module named {name.removeprefix(f'{self.prefix}.')!r}", name=name
        )

    def _import(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,  # noqa: A002 - the interpreter's names
        locals: Mapping[str, object] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """Import a module like `builtins.__import__`, but also find trusted modules of
        the project.
        """
        if level:
            package = cast("str | None", (globals or {}).get("__package__"))
            whole = importlib.util.resolve_name("." * level + name, package)
            if whole.startswith(_ROOT):
                return self._import_own(whole, fromlist)
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        top = name.partition(".")[0]
        before, after = self._added()
        if next(self._regular(top, before), None) is not None:
            return self._import_own(f"{self.prefix}.{name}", fromlist)
        try:
            found = builtins.__import__(name, globals, locals, fromlist or ())
        except ModuleNotFoundError as error:
            if error.name != top:
                raise
            if self.spec_of(f"{self.prefix}.{top}", None) is not None:
                return self._import_own(f"{self.prefix}.{name}", fromlist)
            if untrusted := next(self._untrusted(top, (*before, *after)), None):
                raise ImportError(
                    _untrusted_error(untrusted), name=name, path=untrusted
                ) from error
            raise
        replaced = self._replaced.get(found.__name__)
        return found if replaced is None else replaced

    def _import_own(self, whole: str, fromlist: Sequence[str] | None) -> ModuleType:
        """Import a module of the project, and return the module that the import
        statement binds or takes names from.

        :param whole: the module's name in `sys.modules`.
        """
        module = importlib.import_module(whole)
        if not fromlist:
            top = whole.removeprefix(f"{self.prefix}.").partition(".")[0]
            return sys.modules[f"{self.prefix}.{top}"]
        names = list(fromlist)
        if "*" in names:
            names += cast("Sequence[str]", getattr(module, "__all__", ()))
        for name in names:
            if (
                name != "*"
                and hasattr(module, "__path__")
                and not hasattr(module, name)
            ):
                try:
                    importlib.import_module(f"{whole}.{name}")
                except ModuleNotFoundError as error:
                    if error.name != f"{whole}.{name}":
                        raise
        return module

    def _added(self) -> tuple[list[str], list[str]]:
        """Return the folders that the hook added to its `sys.path`, before and after the
        agent's own entries.

        Folders outside the project are appended to the agent's own path, unless others
        can write to them.
        """
        before: list[str] = []
        after: list[str] = []
        found = before
        for entry in map(os.fspath, self.path):
            if entry in sys.path:
                found = after
            elif self._is_in_project(entry):
                found.append(entry)
            elif search_path(entry):
                sys.path.append(entry)
        return before, after

    def _is_in_project(self, path: str) -> bool:
        real = os.path.realpath(path)
        return real == self._project or real.startswith(f"{self._project}{os.sep}")

    def _regular(self, name: str, folders: Iterable[str]) -> Iterator[str]:
        """Yield the trusted files of a module with this name, in Python's order."""
        for folder in folders:
            for path in (f"{folder}/{name}/__init__.py", f"{folder}/{name}.py"):
                if os.path.realpath(path) in self._sources:
                    yield path

    def _namespaces(self, name: str, folders: Iterable[str]) -> Iterator[str]:
        """Yield the folders of a namespace package: those with this name that contain
        trusted files.
        """
        for folder in folders:
            inner = f"{os.path.realpath(folder)}/{name}/"
            if any(source.startswith(inner) for source in self._sources):
                yield f"{folder}/{name}"

    def _untrusted(self, name: str, folders: Iterable[str]) -> Iterator[str]:
        """Yield the files that Python would load for a module with this name, although
        they are not trusted.
        """
        for folder in folders:
            for suffix in all_suffixes():
                for path in (
                    f"{folder}/{name}/__init__{suffix}",
                    f"{folder}/{name}{suffix}",
                ):
                    if os.path.exists(path):  # noqa: PTH110 - a string
                        yield path


def _untrusted_error(path: Path | str) -> str:
    return (
        f"{path} is not among the sources that you trusted with the project's hooks, or "
        "has changed since then. The agent finds these sources by the names of modules "
        "and folders in the hook. Write the names out in full, or move the code into the "
        "hook's folder"
    )


class _SourceLoader(Loader):
    """Loads a module from its trusted source, without reading or writing bytecode."""

    def __init__(self, modules: ProjectModules, path: str, name: str) -> None:
        self._modules = modules
        self._path = path
        self._name = name

    def exec_module(self, module: ModuleType) -> None:
        """Run the source in a new module.

        :raises ImportError: if the source is not the one that the user trusted.
        """
        self._modules.run(self._path, vars(module))

    def load_module(self, fullname: str = "") -> ModuleType:
        """Return a new module. Unlike the original method, this one does not add the
        module to `sys.modules`, where it could replace one of the agent's modules.

        :raises ImportError: if the source is not the one that the user trusted.
        """
        spec = ModuleSpec(fullname or self._name, self, origin=self._path)
        spec.has_location = True
        module = importlib.util.module_from_spec(spec)
        self.exec_module(module)
        return module

    def get_filename(self, fullname: str) -> str:
        """Return the path of the source."""
        del fullname
        return self._path

    def is_package(self, fullname: str) -> bool:
        """Return whether the source is that of a package."""
        del fullname
        return os.path.basename(self._path) == "__init__.py"  # noqa: PTH119 - a string


class _Finder(MetaPathFinder):
    """Finds the modules of projects, by the prefixes of their names."""

    def __init__(self) -> None:
        self._prefixes: dict[str, str] = {}
        self._modules: dict[str, ProjectModules] = {}

    def prefix_of(self, hook: Path) -> str:
        """Return the prefix of one hook's modules, which stays the same if the hook is
        loaded again.
        """
        return self._prefixes.setdefault(str(hook), f"{_ROOT}{len(self._prefixes)}")

    def add(self, modules: ProjectModules) -> None:
        """Register the modules of a hook, and forget modules that the same hook loaded
        earlier.
        """
        for name in [
            name for name in sys.modules if name.startswith(f"{modules.prefix}.")
        ]:
            sys.modules.pop(name, None)
        self._modules[modules.prefix] = modules
        package = ModuleType(modules.prefix)
        package.__path__ = []
        sys.modules[modules.prefix] = package
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
        /,
    ) -> ModuleSpec | None:
        """Return the spec of a module of a project; None for every other module.

        :raises ImportError: if no trusted source has this name. No other finder may
            search for it.
        """
        del target
        if not fullname.startswith(_ROOT):
            return None
        prefix, _, rest = fullname.partition(".")
        folders = list(path or ()) if "." in rest else None
        modules = self._modules[prefix]
        spec = modules.spec_of(fullname, folders)
        if spec is None:
            modules.refuse(fullname, folders or ())
        return spec


_FINDER = _Finder()
