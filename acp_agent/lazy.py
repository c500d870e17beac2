"""Public names of a package that are imported on first use (PEP 562)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module


def on_demand(package: str, where: Mapping[str, Iterable[str]], names: dict[str, object]) -> Callable[[str], object]:
    """Return a package's `__getattr__`.

    :param package: its full name.
    :param where: its modules, by their names in it, with the public names that are found in each.
    :param names: the package's `globals()`; what has been loaded is kept there.
    """
    modules = {name: module for module, found in where.items() for name in found}

    def load(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{modules[name]}"), name)
        names[name] = value
        return value

    return load
