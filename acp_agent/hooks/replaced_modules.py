"""Replaces the standard modules with which a project's Python hook could load code
without an import statement.

The replacements load files of the project from their trusted source, and refuse other
files that a sandboxed command could have written. In all other cases, they call the
real modules.

Source: Python's documentation, `runpy`, `importlib.machinery`, `importlib.util`, `imp`
(Python 3.11) and `zipimport`
"""

from __future__ import annotations

import builtins
import importlib
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Protocol, TypeAlias, cast

Location: TypeAlias = str | os.PathLike[str]

_EXTERNAL = "importlib._bootstrap_external"
"""The module that defines the classes that `importlib.machinery` exports."""


class Sources(Protocol):
    """The functions of `ProjectModules` that the replacements use."""

    @property
    def builtins(self) -> dict[str, Any]:
        """The built-in names of the hook."""
        ...

    @property
    def path(self) -> list[str]:
        """The hook's own `sys.path`."""
        ...

    def import_module(self, name: str, package: str | None = None) -> ModuleType:
        """Import a module like `importlib.import_module`."""
        ...

    def is_loaded_from_source(self, path: Location) -> bool:
        """Return whether a file belongs to the project, so that only its trusted source
        may be loaded.

        :raises ImportError: if the file does not belong to the project, and others can
            write to its folder.
        """
        ...

    def source_loader(self, name: str, path: Location) -> Loader:
        """Return a loader for a module of this name in a file of the project."""
        ...

    def refuse_file(self, path: Location) -> None:
        """Check that a file in a format other than source may be loaded.

        :raises ImportError: if the file belongs to the project, or if others can write
            to its folder.
        """
        ...

    def run(self, path: Location, names: dict[str, Any]) -> None:
        """Run the trusted source of a file.

        :param names: the global names of the code.
        """
        ...

    def file_of(self, module: str) -> str | None:
        """Return the trusted file of a top-level module of the project, or None."""
        ...


def replaced_modules(sources: Sources) -> Mapping[str, ModuleType]:
    """Return the replacements by the names of the modules."""
    machinery = _machinery(sources)
    util = _Replacement(
        importlib.util, spec_from_file_location=_spec_from_file_location(sources)
    )
    external = _LazyReplacement(_EXTERNAL, vars(machinery))
    found = {
        "sys": _Replacement(sys, path=sources.path),
        "builtins": _Replacement(builtins, **sources.builtins),
        "importlib": _Replacement(
            importlib,
            import_module=sources.import_module,
            __import__=sources.builtins["__import__"],
            util=util,
            machinery=machinery,
            _bootstrap_external=external,
        ),
        "importlib.util": util,
        "importlib.machinery": machinery,
        _EXTERNAL: external,
    }
    for name, own in (
        ("runpy", _of_runpy(sources)),
        ("imp", _of_imp(sources)),
        ("zipimport", {"zipimporter": _refused(sources, "zipimport", "zipimporter")}),
    ):
        found[name] = _LazyReplacement(name, own)
    return found


class _Replacement(ModuleType):
    """A module with a few attributes of its own. All other attributes are those of the
    real module.
    """

    def __init__(self, real: ModuleType, **own: object) -> None:
        super().__init__(real.__name__, real.__doc__)
        vars(self).update(own, _real=real)

    def __getattr__(self, name: str) -> object:
        return getattr(vars(self)["_real"], name)


class _LazyReplacement(ModuleType):
    """Like `_Replacement`, but the real module is imported on first use."""

    def __init__(self, name: str, own: Mapping[str, object]) -> None:
        super().__init__(name)
        hidden = {"__name__", "__doc__", "__loader__", "__spec__", "__package__"}
        vars(self).update(
            {key: value for key, value in own.items() if key not in hidden}
        )

    def __getattr__(self, name: str) -> object:
        return getattr(importlib.import_module(self.__name__), name)


def _spec_from_file_location(sources: Sources) -> Callable[..., ModuleSpec | None]:
    def spec_from_file_location(
        name: str,
        location: Location | None = None,
        *,
        loader: Loader | None = None,
        submodule_search_locations: list[str] | None = None,
    ) -> ModuleSpec | None:
        if (
            location is not None
            and loader is None
            and sources.is_loaded_from_source(location)
        ):
            loader = sources.source_loader(name, location)
        return importlib.util.spec_from_file_location(
            name,
            location,
            loader=loader,
            submodule_search_locations=submodule_search_locations,
        )

    return spec_from_file_location


def _machinery(sources: Sources) -> ModuleType:
    def source_file_loader(fullname: str, path: Location) -> Loader:
        if sources.is_loaded_from_source(path):
            return sources.source_loader(fullname, path)
        return importlib.machinery.SourceFileLoader(fullname, os.fspath(path))

    return _Replacement(
        importlib.machinery,
        SourceFileLoader=source_file_loader,
        SourcelessFileLoader=_refused(
            sources, "importlib.machinery", "SourcelessFileLoader", at=1
        ),
        ExtensionFileLoader=_refused(
            sources, "importlib.machinery", "ExtensionFileLoader", at=1
        ),
    )


def _of_runpy(sources: Sources) -> Mapping[str, Callable[..., object]]:
    def run_path(
        path_name: Location,
        init_globals: Mapping[str, Any] | None = None,
        run_name: str | None = None,
    ) -> dict[str, Any]:
        path = os.fspath(path_name)
        if not sources.is_loaded_from_source(path):
            import runpy

            given = None if init_globals is None else dict(init_globals)
            return runpy.run_path(path, given, run_name)
        if os.path.isdir(path):  # noqa: PTH112 - a string
            path = f"{path}/__main__.py"
        return run(path, init_globals, run_name or "<run_path>")

    def run_module(
        mod_name: str,
        init_globals: Mapping[str, Any] | None = None,
        run_name: str | None = None,
        alter_sys: bool = False,
    ) -> dict[str, Any]:
        path = sources.file_of(mod_name)
        if path is None:  # the real runpy does not search the project's folders
            import runpy

            given = None if init_globals is None else dict(init_globals)
            return runpy.run_module(mod_name, given, run_name, alter_sys)
        return run(path, init_globals, run_name or mod_name)

    def run(path: str, given: Mapping[str, Any] | None, name: str) -> dict[str, Any]:
        module = ModuleType(name)
        names = vars(module)
        names.update(given or {}, __name__=name, __file__=path)
        sources.run(path, names)
        return dict(names)

    return {"run_path": run_path, "run_module": run_module}


def _of_imp(sources: Sources) -> Mapping[str, Callable[..., object]]:
    def load_source(name: str, pathname: Location, file: object = None) -> ModuleType:
        del file
        spec = _spec_from_file_location(sources)(name, pathname)
        if spec is None or spec.loader is None:
            raise ImportError(f"{pathname} is not a Python file", name=name)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return {
        "load_source": load_source,
        "load_compiled": _refused(sources, "imp", "load_compiled", at=1),
        "load_dynamic": _refused(sources, "imp", "load_dynamic", at=1),
    }


def _refused(
    sources: Sources, module: str, name: str, at: int = 0
) -> Callable[..., object]:
    """Return a replacement of a real module's function that refuses files of the
    project, and files in folders that others can write to.

    :param name: name of the function.
    :param at: index of the argument with the file's path.
    """

    def load(*arguments: Any, **more: Any) -> object:
        path = arguments[at] if len(arguments) > at else more.get("path", "")
        sources.refuse_file(cast("Location", path))
        return getattr(importlib.import_module(module), name)(*arguments, **more)

    return load
