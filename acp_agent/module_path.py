"""Restricts `sys.path` to the agent's installation, so that no project's modules are
imported.

A project gets onto the agent's path through PYTHONPATH, through `python -m`, or as an
editable installation in the agent's environment. A sandboxed command could create a
module there that the agent or one of its dependencies tries to import and does not find
elsewhere, such as `msvcrt`. Entries of PYTHONPATH even precede the standard library.

Before this module runs, Python has already imported `sitecustomize` and about thirty of
its own modules. So the sandbox watches folders in PYTHONPATH for these names, see
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
    from importlib.machinery import ModuleSpec
    from importlib.metadata import EntryPoint
    from types import ModuleType

    from _typeshed.importlib import MetaPathFinderProtocol

_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_SITE = ("site-packages", "dist-packages")
_EDITABLE = "editable"
"""Editable installations add finders to `sys.meta_path`. The names of the finders' modules
contain this word.
"""
_CUSTOM = ("sitecustomize", "usercustomize")
_GROUPS = ("acp_agent.hooks", "acp_agent.compaction_strategies")

removed_folders: list[str] = []
"""The entries that were removed from `sys.path`."""
removed_finders: list[MetaPathFinderProtocol] = []
"""The finders of editable installations that were removed from `sys.meta_path`."""
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
    if removed_folders or removed_finders:
        _PLUG_INS.names.add(point.module.partition(".")[0])
        if _PLUG_INS not in sys.meta_path:
            sys.meta_path.append(_PLUG_INS)
    return point.load()


def plug_in_places() -> Iterator[str]:
    """Yield the folders and files of plug-ins that are editable installations.

    The plug-ins are not imported.
    """
    if not (removed_folders or removed_finders):
        return
    from importlib.metadata import entry_points

    for group in _GROUPS:
        for point in entry_points(group=group):
            spec = _removed_spec(point.module.partition(".")[0])
            if spec is not None:
                yield from spec.submodule_search_locations or (
                    [spec.origin] if spec.origin else []
                )


def _removed_spec(name: str) -> ModuleSpec | None:
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec(
        name, [each for each in removed_folders if os.path.isabs(each)]
    )
    for finder in removed_finders:
        spec = spec or finder.find_spec(name, None)
    return spec


class _PlugIns:
    """Finds plug-ins, and no other modules, in editable installations."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
        /,
    ) -> ModuleSpec | None:
        del path, target
        return _removed_spec(fullname) if fullname in self.names else None


_PLUG_INS = _PlugIns()


def _is_standard(entry: str) -> bool:
    library = os.path.dirname(os.path.abspath(os.__file__))
    archive = f"python{sys.version_info[0]}{sys.version_info[1]}.zip"
    return (
        entry in (library, f"{library}/lib-dynload")
        or entry == f"{os.path.dirname(library)}/{archive}"
    )


def _is_site(entry: str) -> bool:
    """Return whether this is a folder of packages that belongs to the agent's environment.

    Others do so if they are read-only, or if PYTHONPATH does not name them: packagers
    such as Nix add one folder for each dependency.
    """
    if os.path.basename(entry) not in _SITE:
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


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""
