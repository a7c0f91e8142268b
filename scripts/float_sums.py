"""A mypy plugin that refuses the builtin `sum` of floats.

Since Python 3.12 `sum` compensates the rounding errors of floats, so a total, and with it a selection, depends on the
interpreter. Whole numbers, and objects with an `__add__` of their own, are added alike everywhere.

A sum of type Any may be one of floats.
"""

from collections.abc import Callable

from mypy.errorcodes import ErrorCode
from mypy.plugin import FunctionContext, Plugin
from mypy.types import AnyType, Instance, Type, UnionType, get_proper_type

FLOAT_SUM = ErrorCode("float-sum", "Sums of floats that depend on the interpreter", "cupel")
_MESSAGE = (
    "sum() of floats differs between Python versions: add from left to right in a loop (ruling 1.1), "
    "or with math.fsum where no order is specified"
)


class FloatSums(Plugin):
    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        return _refuse_floats if fullname == "builtins.sum" else None


def _refuse_floats(context: FunctionContext) -> Type:
    if _may_be_float(context.default_return_type):
        errors = context.api.msg.errors
        # mypy drops the errors of one overload of `sum` to try the next.
        watchers, errors._watchers = errors._watchers, []  # noqa: SLF001
        context.api.fail(_MESSAGE, context.context, code=FLOAT_SUM)
        errors._watchers = watchers  # noqa: SLF001
    return context.default_return_type


def _may_be_float(found: Type) -> bool:
    proper = get_proper_type(found)
    if isinstance(proper, UnionType):
        return any(map(_may_be_float, proper.items))
    return isinstance(proper, AnyType) or (isinstance(proper, Instance) and proper.type.fullname == "builtins.float")


def plugin(version: str) -> type[Plugin]:
    del version
    return FloatSums
