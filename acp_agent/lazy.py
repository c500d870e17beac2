"""Public names of a package that are imported on first use (PEP 562)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from importlib import import_module


def on_demand(package: str, modules: Collection[str], names: Collection[str] | None = None) -> Callable[[str], object]:
    """Return a package's `__getattr__`.

    :param package: its full name.
    :param modules: its modules that have the names, in the order in which they are imported until a name is found.
    :param names: the package's `__all__`; by default all names with a capital letter, since another one may be a
        sub-module that is not loaded yet.
    """

    def load(name: str) -> object:
        is_public = name[:1].isupper() if names is None else name in names
        for module in modules if is_public else ():
            found = vars(import_module(f"{package}.{module}"))
            if name in found:
                return found[name]
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load
