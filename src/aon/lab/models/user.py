"""Build a user's network from `package.module:function` and fit it to the method."""

import hashlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from aon.lab.errors import LabError
from aon.lab.models.ingredients import Ingredients


def build_user_network(reference: str, given: Mapping[str, Any], ingredients: Ingredients) -> nn.Module:
    """Call the function that `reference` names with as many of our arguments as its signature takes.

    A function that takes `ingredients` places them itself. One that does not is taken to build a network with
    torch's layers: its batch normalisations are exchanged for the method's normaliser, its ReLUs for the
    method's activation function (see `adopt`).

    Args:
        reference: `package.module:function`; the current directory is searched as well.
        given: Arguments by name (classes, width, in_channels, image_size).
        ingredients: What the method chooses.

    Raises:
        LabError: If the function cannot be found or called, or does not return a module.
    """
    function = find_function(reference)
    accepted = _accepted(function, {**given, "ingredients": ingredients}, reference)
    try:
        model = function(**accepted)
    except Exception as error:
        raise LabError(f"{reference} failed: {type(error).__name__}: {_first_line(error)}") from error
    if not isinstance(model, nn.Module):
        raise LabError(f"{reference} returned a {type(model).__name__}, expected a torch.nn.Module")
    if any(isinstance(parameter, nn.UninitializedParameter) for parameter in model.parameters()):
        raise LabError(f"{reference} has lazy layers without weights: run one batch through it before it is returned")
    return model if "ingredients" in accepted else adopt(model, ingredients, reference)


def find_function(reference: str) -> Callable[..., object]:
    """The callable that `package.module:function` names.

    Raises:
        LabError: If the text is malformed, the module cannot be imported or has no such callable.

    Example:
        >>> find_function("torch.nn:Linear")
        <class 'torch.nn.modules.linear.Linear'>
    """
    module_name, _, function_name = reference.partition(":")
    if not module_name or not function_name:
        raise LabError(f"{reference!r} is not of the form package.module:function")
    function = getattr(_import(module_name, reference), function_name, None)
    if not callable(function):
        raise LabError(f"module {module_name!r} has no callable {function_name!r} (asked for by {reference!r})")
    return function  # type: ignore[no-any-return]


def source_fingerprint(network: str) -> str | None:
    """SHA-256 of the source file of a user's own network.

    Args:
        network: As in a configuration.

    Returns:
        The digest; None for a network of ours, or a function without a file.

    Raises:
        LabError: If there is no such function, or its file cannot be read.

    Example:
        >>> source_fingerprint("resnet20") is None
        True
    """
    if ":" not in network:
        return None
    function = find_function(network)
    # As it was imported, as far as Python tells: a file that was changed since is found out at the next start.
    file = getattr(sys.modules.get(getattr(function, "__module__", "")), "__file__", None)
    if file is None:
        return None
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except OSError as error:
        raise LabError(f"cannot read {file} of {network}: {error.strerror}") from error


def _import(module_name: str, reference: str) -> object:
    # The `aon` command, unlike `python -m`, does not put the current directory on the path.
    here = os.getcwd()  # noqa: PTH109 (sys.path holds strings)
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
    try:
        return import_module(module_name)
    except Exception as error:  # a user's module may fail in any way while it is imported
        raise LabError(f"cannot import {module_name!r} for {reference!r}: {_first_line(error)}") from error


def _accepted(function: Callable[..., object], given: Mapping[str, Any], reference: str) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return dict(given)
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    by_name = {parameter.name for parameter in parameters if parameter.kind in named}
    missing = [p.name for p in parameters if p.default is p.empty and p.kind in named and p.name not in given]
    if missing:
        raise LabError(f"{reference} needs {', '.join(missing)}, but is given only {', '.join(given)}")
    return {name: value for name, value in given.items() if name in by_name}


def _first_line(error: BaseException) -> str:
    return str(error).split("\n", 1)[0] or type(error).__name__


def adopt(model: nn.Module, ingredients: Ingredients, reference: str) -> nn.Module:
    """Put the method's normaliser and activation function in place of batch normalisations and ReLUs.

    Where the method asks for what is already there, the layer is kept as it is, with its own settings.

    Raises:
        LabError: If the method has a normaliser or dropout and the model has no place for it.
    """
    if ingredients.dropout is not None:
        raise _no_place("dropout", reference)
    if ingredients.normalises and not any(isinstance(module, _BatchNorm) for module in model.modules()):
        raise _no_place("a normaliser of activations", reference)
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):  # named_children leaves out a child's second name
            if isinstance(child, _BatchNorm):
                setattr(parent, name, _unless_same(child, ingredients.norm(child.num_features)))
            elif isinstance(child, nn.ReLU):
                setattr(parent, name, _unless_same(child, ingredients.activation()))
    return model


def _no_place(what: str, reference: str) -> LabError:
    return LabError(
        f"the method has {what} and {reference} no place for it: let it take `ingredients`, or leave it out"
    )


def _unless_same(old: nn.Module, new: nn.Module) -> nn.Module:
    both_batch = isinstance(new, nn.BatchNorm2d) and isinstance(old, _BatchNorm)
    return old if both_batch or type(new) is type(old) else new
