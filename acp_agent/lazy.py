"""Imports the public names of a package on first use (PEP 562)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from importlib import import_module


def on_demand(
    package: str, modules: Collection[str], names: Collection[str] | None = None
) -> Callable[[str], object]:
    """Return a package's `__getattr__`.

    :param package: full name of the package.
    :param modules: the modules that define the names. They are imported in this order
        until the name is found.
    :param names: the package's `__all__`. The default is all capitalized names, since
        other names may be submodules that are not loaded yet.
    """

    def load(name: str) -> object:
        is_public = name[:1].isupper() if names is None else name in names
        for module in modules if is_public else ():
            found = vars(import_module(f"{package}.{module}"))
            if name in found:
                return found[name]
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load
