"""`@frozen`: a frozen dataclass with slots whose class is created quickly.

`@dataclass(frozen=True, slots=True)` generates and compiles six methods for each class.
That takes half a millisecond per class. For the classes that a session needs, it was a
third of the time that an editor waited. Here, only `__init__` is compiled, and only
when the first object is created. The other methods need no generated code. The result
is an ordinary dataclass: `fields`, `replace`, `repr`, `==`, `hash`, `match`, copies,
pickles and pydantic work as they do with the standard library's dataclasses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from typing import Any, NoReturn, TypeAlias, TypeVar, dataclass_transform

_T = TypeVar("_T")
_Fields: TypeAlias = tuple[Field[Any], ...]
_set = object.__setattr__


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[_T]) -> type[_T]:
    """Turn a class whose annotations are its fields into a frozen dataclass with slots.

    :param cls: the class. Methods that it defines itself are kept. Base classes that
        are dataclasses must also use this decorator.
    :returns: a new class, so `super()` needs both arguments in its methods.
    :raises TypeError: if the class has `InitVar`s, keyword-only fields or fields with
        `init=False`, which are not supported.
    """
    own = vars(cls)
    if not own.get("__doc__"):
        cls.__doc__ = cls.__name__  # else `dataclass` computes the signature, which takes longer than everything else
    made: Any = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    every = fields(made)
    if made.__match_args__ != tuple(each.name for each in every):
        raise TypeError(
            f"{cls.__qualname__}: a frozen class may only have plain fields"
        )
    methods: dict[str, object] = {
        "__init__": _Init(made, every),
        **_comparison(every),
        **_SHARED,
    }
    for name, method in methods.items():
        if own.get(name) is None:
            setattr(made, name, method)
    return made


class _Init:
    """An `__init__` that is compiled on first access, which for most classes is after a
    session has been opened.
    """

    def __init__(self, cls: type, every: _Fields) -> None:
        self._cls = cls
        self._fields = every

    def __get__(self, instance: object, owner: type) -> Callable[..., None]:
        made: Any = _compiled_init(self._cls, self._fields)
        self._cls.__init__ = made
        return made.__get__(instance, owner)


def _compiled_init(cls: type, every: _Fields) -> Callable[..., None]:
    """Compile the method from source. Only this method needs it, since its parameters
    differ for each class.
    """
    names: dict[str, object] = {
        "__name__": cls.__module__,
        "__set": _set,
        "__missing": MISSING,
    }
    parameters = ["self"]
    body: list[str] = []
    for each in every:
        name = value = each.name
        if each.default_factory is not MISSING:
            names[f"__make_{name}"] = each.default_factory
            default = "=__missing"
            value = f"__make_{name}() if {name} is __missing else {name}"
        elif each.default is not MISSING:
            names[f"__default_{name}"] = each.default
            default = f"=__default_{name}"
        else:
            default = ""
        parameters.append(name + default)
        body.append(f" __set(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append(" self.__post_init__()")
    exec("\n".join([f"def __init__({', '.join(parameters)}):", " pass", *body]), names)
    init: Any = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {each.name: each.type for each in every} | {"return": None}
    return init


def _comparison(every: _Fields) -> dict[str, Callable[..., object]]:
    values = attrgetter("__class__", *(each.name for each in every if each.compare))

    def eq(self: object, other: object) -> bool:
        return (
            values(self) == values(other)
            if other.__class__ is self.__class__
            else NotImplemented
        )

    def hash_(self: object) -> int:
        return hash(values(self))

    return {"__eq__": eq, "__hash__": hash_}


def _repr(self: Any) -> str:
    shown = ", ".join(
        f"{each.name}={getattr(self, each.name)!r}"
        for each in fields(self)
        if each.repr
    )
    return f"{self.__class__.__qualname__}({shown})"


def _refuse_set(self: object, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _reduce(self: Any) -> tuple[object, ...]:
    return self.__class__, tuple(getattr(self, each.name) for each in fields(self))


_SHARED: dict[str, Callable[..., object]] = {
    "__repr__": _repr,
    "__setattr__": _refuse_set,
    "__delattr__": _refuse_delete,
    "__reduce__": _reduce,
}
