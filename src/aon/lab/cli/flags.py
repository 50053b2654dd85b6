"""Give a command one option for each setting of `RunConfig`."""

import inspect
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any

import typer

from aon.lab.experiment.config import RunConfig

_PANEL = "Settings of a run"
_SHORT_TYPES = (bool, int, float)
_ALSO = {"network": "--model"}


def with_settings(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command one option for each setting of a run; it receives those that were given as keywords.

    Args:
        *without: Settings that the command does not have.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        own = [p for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD]
        added = [_parameter(name) for name in RunConfig.model_fields if name not in without]

        def command(**given: Any) -> None:
            function(**given)

        command.__name__, command.__doc__ = function.__name__, function.__doc__
        command.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in [*own, *added]}
        return command

    return decorate


def _parameter(name: str) -> inspect.Parameter:
    kind: Any = _kind(RunConfig.model_fields[name].annotation)
    option = Annotated[kind | None, typer.Option(*_names(name, kind), help=_help(name), rich_help_panel=_PANEL)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)


def _names(name: str, kind: type) -> list[str]:
    dashed = name.replace("_", "-")
    flag = f"--{dashed}/--no-{dashed}" if kind is bool else f"--{dashed}"
    return [flag, _ALSO[name]] if name in _ALSO else [flag]


def _help(name: str) -> str:
    field = RunConfig.model_fields[name]
    default = field.default
    if isinstance(default, tuple):
        default = ",".join(str(part) for part in default)
    return f"{field.description}" + (f" (the paper's protocol: {default})" if _is_protocol(name) else "")


def _is_protocol(name: str) -> bool:
    return name in ("epochs", "batch_size", "learning_rate", "momentum", "weight_decay", "milestones", "decay")


def _kind(annotation: Any) -> type:
    """The type the command line reads; ranges and words are judged by `RunConfig`, which names them better."""
    if annotation in _SHORT_TYPES:
        return typing.cast(type, annotation)
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        return _kind(next(part for part in typing.get_args(annotation) if part is not type(None)))
    if typing.get_origin(annotation) is Annotated:
        return _kind(typing.get_args(annotation)[0])
    return str
