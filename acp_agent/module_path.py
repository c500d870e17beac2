"""Restricts `sys.path` to the agent's installation, so that no project's modules are
imported.

A project gets onto the agent's path through PYTHONPATH, through `python -m`, or as an
editable installation in the agent's environment. A sandboxed command could create a
module there that the agent or one of its dependencies tries to import but that exists
nowhere else, such as `msvcrt`. Entries of PYTHONPATH even precede the standard library.

Before this module runs, Python has already imported `sitecustomize` and about thirty of
its own modules. So the sandbox watches folders in PYTHONPATH for these names; see
`startup_files`.

Source: Python's documentation, "The initialization of the sys.path module search path"
and `site`; setuptools, "Development Mode"; PEP 660
"""

# pathlib and typing would delay the answer to `initialize`.
# ruff: noqa: PTH100, PTH109, PTH110, PTH117, PTH119, PTH120
from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.machinery import ModuleSpec, SourceFileLoader
    from importlib.metadata import Distribution, EntryPoint
    from types import ModuleType
    from typing import NoReturn

    from _typeshed.importlib import MetaPathFinderProtocol

_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_SITE = ("site-packages", "dist-packages")
_EDITABLE = "editable"
"""Editable installations add finders to `sys.meta_path`. The names of the finders' modules
contain this word.
"""
_CUSTOM = ("sitecustomize", "usercustomize")
_DISTRIBUTION = "acp-agent-server"
_GROUPS = ("acp_agent.hooks", "acp_agent.compaction_strategies")

removed_folders: list[str] = []
"""The entries that were removed from `sys.path`."""
removed_finders: list[MetaPathFinderProtocol] = []
"""The finders of editable installations that were removed from `sys.meta_path`."""
hidden_modules: dict[str, str] = {}
"""Modules that were requested but exist only in an editable installation that the agent
does not import from, with their locations.
"""
startup_names: tuple[str, ...] = _CUSTOM
"""The modules that Python may import from PYTHONPATH before the agent can prevent it."""


def restrict() -> None:
    """Remove everything from Python's search path except the agent's installation.

    Called once, at the start.
    """
    global startup_names  # noqa: PLW0603 - set once
    if hasattr(sys, "frozen"):  # a bundled program has its own finders
        return
    frozen = {"zipimport", *sys.builtin_module_names}
    tops = {name.partition(".")[0] for name in sys.modules}
    startup_names = tuple(sorted({*_CUSTOM, *tops} - frozen - {"__main__"}))
    parent = os.path.dirname(_PACKAGE)
    is_checkout = os.path.basename(parent) not in _SITE and os.path.exists(
        f"{parent}/pyproject.toml"
    )
    # Bundles, such as zip files, may have a folder for each package.
    is_strict = is_checkout or os.path.basename(parent) in _SITE
    listed = python_path()
    kept: list[str] = []
    for entry in sys.path:
        is_own = (
            _is_standard(entry)
            or _is_site(entry)
            or (entry == parent and not is_checkout)
        )
        is_named = (
            entry in listed or not os.path.isabs(entry) or entry == _working_directory()
        )
        if is_own or not (is_strict or is_named):
            kept.append(entry)
        else:
            removed_folders.append(entry)
    sys.path[:] = kept
    for finder in list(sys.meta_path):
        if _EDITABLE in str(getattr(finder, "__module__", "")):
            sys.meta_path.remove(finder)
            removed_finders.append(finder)
    if removed_folders or removed_finders:
        sys.meta_path.append(_EDITABLES)
    if sys.pycache_prefix and not os.path.isabs(sys.pycache_prefix):
        sys.pycache_prefix = None  # the working directory may be a hostile repository


def python_path() -> list[str]:
    """Return the entries of PYTHONPATH as absolute paths. An empty entry means the
    working directory.
    """
    value = os.environ.get("PYTHONPATH", "")
    if not value or sys.flags.ignore_environment:
        return []
    return [
        os.path.abspath(entry) if entry else _working_directory()
        for entry in value.split(os.pathsep)
    ]


def foreign_python_path() -> list[str]:
    """Return the entries of PYTHONPATH that do not belong to the agent's installation."""
    return [
        each
        for each in python_path()
        if not _is_site(each) and each != os.path.dirname(_PACKAGE)
    ]


def startup_files(folder: str) -> Iterator[str]:
    """Yield the paths in a folder of PYTHONPATH that Python may import before the agent
    runs.
    """
    from importlib.machinery import all_suffixes

    suffixes = all_suffixes()
    for name in startup_names:
        for suffix in suffixes:
            yield f"{folder}/{name}{suffix}"
            yield f"{folder}/{name}/__init__{suffix}"


def load_plug_in(point: EntryPoint) -> object:
    """Import the object that an entry point names, even if its package is an editable
    installation.

    :raises Exception: whatever the package raises.
    """
    _EDITABLES.plug_ins.add(point.module.partition(".")[0])
    return point.load()


def editable_places() -> Iterator[str]:
    """Yield the folders and files of editable installations that the agent may import,
    which are its plug-ins and dependencies.

    This does not import them.
    """
    if not (removed_folders or removed_finders):
        return
    from importlib.metadata import entry_points

    names = {
        point.module.partition(".")[0]
        for group in _GROUPS
        for point in entry_points(group=group)
    }
    for each in _editable_dependencies():
        names |= each.modules
    for name in sorted(names):
        if (spec := _removed_spec(name)) is not None:
            yield from _places_of(spec)


def hidden_reason(error: ImportError) -> str:
    """Return why a module was not found even though an editable installation has it;
    empty if none has it.
    """
    place = hidden_modules.get(error.name or "")
    if place is None:
        return ""
    return (
        f"The module {error.name} is only in the editable installation at {place}. The agent imports nothing from "
        "there, since none of its dependencies says that it has this module. Install the module's package without "
        "`--editable`."
    )


class _Dependency:
    """A dependency of the agent that is an editable installation.

    :ivar modules: the names of its top-level modules.
    :ivar folder: the folder of its project.
    """

    def __init__(self, modules: set[str], folder: str) -> None:
        self.modules = modules
        self.folder = folder

    def has(self, name: str, spec: ModuleSpec) -> bool:
        """Return whether a module that was found belongs to this dependency."""
        return name in self.modules and any(
            os.path.realpath(place).startswith(f"{self.folder}{os.sep}")
            for place in _places_of(spec)
        )


class _Editables:
    """Finds plug-ins and dependencies, and no other modules, in editable installations.

    This finder is called only for modules that are not found elsewhere.
    """

    def __init__(self) -> None:
        self.plug_ins: set[str] = set()
        self._is_looking = False

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
        /,
    ) -> ModuleSpec | None:
        del target
        if path is not None or self._is_looking:
            return None
        self._is_looking = True  # the code below imports modules too
        try:
            spec = _removed_spec(fullname)
            if spec is None or fullname in self.plug_ins:
                return spec
            if any(each.has(fullname, spec) for each in _editable_dependencies()):
                return spec
            hidden_modules[fullname] = next(iter(_places_of(spec)), "")
            return None
        finally:
            self._is_looking = False


_EDITABLES = _Editables()
_dependencies: list[tuple[_Dependency, ...]] = []


def _editable_dependencies() -> tuple[_Dependency, ...]:
    """Return the agent's direct and indirect dependencies that are editable
    installations.
    """
    if not _dependencies:
        _dependencies.append(tuple(_find_editable_dependencies()))
    return _dependencies[0]


def _find_editable_dependencies() -> Iterator[_Dependency]:
    import re
    from importlib.metadata import distributions

    def normal(name: str) -> str:
        return re.sub(r"[-_.]+", "-", name).lower()

    every = {normal(each.name): each for each in distributions()}
    needed = [_DISTRIBUTION]
    for name in needed:
        requirements = every[name].requires if name in every else None
        for requirement in requirements or ():
            word = re.match(r"[\w.-]+", requirement)
            is_meant = name == _DISTRIBUTION or "extra ==" not in requirement
            if word and is_meant and normal(word[0]) not in needed:
                needed.append(normal(word[0]))
    for name in needed[1:]:
        folder = _project_of(every[name]) if name in every else ""
        if folder:
            listed = (every[name].read_text("top_level.txt") or "").split()
            yield _Dependency({*listed, name.replace("-", "_")}, folder)


def _project_of(distribution: Distribution) -> str:
    """Return the resolved folder of the project that an editable installation comes
    from; empty for other installations.
    """
    import json
    from urllib.parse import unquote, urlsplit

    try:
        found = json.loads(distribution.read_text("direct_url.json") or "{}")
        if not found.get("dir_info", {}).get("editable"):
            return ""
        return os.path.realpath(unquote(urlsplit(str(found["url"])).path))
    except (ValueError, KeyError, AttributeError):
        return ""


def _removed_spec(name: str) -> ModuleSpec | None:
    """Return how to import a top-level module from an editable installation.

    A module is not found if several files match its name, since a command could have
    created one of them.
    """
    from importlib.machinery import PathFinder, SourceFileLoader

    spec = PathFinder.find_spec(
        name, [each for each in removed_folders if os.path.isabs(each)]
    )
    for finder in removed_finders:
        spec = spec or finder.find_spec(name, None)
    if spec is None or len(list(_files_of(name, spec))) > 1:
        return None
    if (
        isinstance(spec.loader, SourceFileLoader)
        and not spec.submodule_search_locations
    ):
        # The installation consists of this file only, so anybody could write its
        # bytecode.
        spec.loader = _without_bytecode()(name, spec.loader.path)
        spec.cached = None
    return spec


def _files_of(name: str, spec: ModuleSpec) -> Iterator[str]:
    """Yield the files that Python may load for a top-level module that was found."""
    from importlib.machinery import all_suffixes

    for place in _places_of(spec):
        folder = os.path.dirname(place)
        for suffix in all_suffixes():
            for path in (
                f"{folder}/{name}/__init__{suffix}",
                f"{folder}/{name}{suffix}",
            ):
                if os.path.lexists(path):
                    yield path


def _places_of(spec: ModuleSpec) -> Sequence[str]:
    if spec.submodule_search_locations:
        return [*spec.submodule_search_locations]
    return [spec.origin] if spec.origin else []


def _without_bytecode() -> type[SourceFileLoader]:
    from importlib.machinery import SourceFileLoader as Base

    class Loader(Base):
        """Loads a module from its source only."""

        def path_stats(self, path: str) -> NoReturn:
            """Report that there is nothing to compare bytecode with.

            :raises OSError: always, after which Python reads the source.
            """
            raise OSError

    return Loader


def _is_standard(entry: str) -> bool:
    library = os.path.dirname(os.path.abspath(os.__file__))
    archive = f"python{sys.version_info[0]}{sys.version_info[1]}.zip"
    return (
        entry in (library, f"{library}/lib-dynload")
        or entry == f"{os.path.dirname(library)}/{archive}"
    )


def _is_site(entry: str) -> bool:
    """Return whether this is a folder of packages that belongs to the agent's environment.

    Other folders belong to it if they are read-only, or if PYTHONPATH does not name
    them: packagers such as Nix add one folder for each dependency.
    """
    if os.path.basename(entry) not in _SITE or _is_in_relative_user_base(entry):
        return False
    site = sys.modules.get("site")
    roots = {
        sys.prefix,
        sys.exec_prefix,
        sys.base_prefix,
        sys.base_exec_prefix,
        getattr(site, "USER_BASE", None),
    }
    own = {
        f"{root}/{library}/"
        for root in roots
        if root
        for library in ("lib", sys.platlibdir, "local/lib")
    }
    if entry.startswith(tuple(own)) or not os.access(entry, os.W_OK):
        return True
    return entry not in python_path()


def relative_user_base() -> str:
    """Return PYTHONUSERBASE if it is a relative path, which names a folder in the working
    directory; otherwise an empty string.
    """
    base = os.environ.get("PYTHONUSERBASE", "")
    return "" if sys.flags.ignore_environment or os.path.isabs(base) else base


def _is_in_relative_user_base(entry: str) -> bool:
    base = relative_user_base()
    return bool(base) and os.path.abspath(entry).startswith(
        f"{os.path.abspath(base)}{os.sep}"
    )


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""
