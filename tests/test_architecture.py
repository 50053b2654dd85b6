"""Who may import whom: read from the source, so that a wrong arrow fails here and not in a review."""

import ast
import importlib
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from scripts.draw_arrows import INIT, REPOSITORY, arrows, diagram, imported, modules, packages, put

import aon

ROOT = Path(aon.__file__).parent
MODULES = modules(ROOT.parent)
LIBRARY = [name for name in MODULES if not name.startswith("aon.lab")]
# From the ground up; a part may import only from lines before its own.
ORDER = {
    "aon": [
        {"kernels"},
        {"functional", "maps", "activations"},
        {"model", "renorm", "whitening"},
        {"penalties", "bounding"},
        {INIT},
        {"lab"},
    ],
    "aon.lab": [
        {INIT, "errors"},
        {"system"},
        {"data", "models"},
        {"methods"},
        {"experiment"},
        {"training", "report"},
        {"grid", "planning"},
        {"bench"},
        {"cli"},
        {"__main__"},
    ],
}


@pytest.mark.parametrize("package", ORDER)
def test_every_room_has_its_place(package):
    assert set(arrows(package, MODULES)) == set().union(*ORDER[package]), "a new room needs a place in ORDER"


@pytest.mark.parametrize("package", ORDER)
def test_arrows_between_rooms_go_down(package):
    height = {part: number for number, line in enumerate(ORDER[package]) for part in line}
    wrong = [
        f"{start} must not import {end}"
        for start, ends in arrows(package, MODULES).items()
        for end in ends
        if height[end] >= height[start]
    ]
    assert not wrong


@pytest.mark.parametrize("package", packages(MODULES))
def test_no_cycles(package):
    try:
        TopologicalSorter(arrows(package, MODULES)).prepare()
    except CycleError as error:
        pytest.fail(f"cycle in {package}: {' -> '.join(reversed(error.args[1]))}")


def importers(room):
    """Modules outside a room that import something in it."""
    inside = {name for name in MODULES if name == room or name.startswith(f"{room}.")}
    return {name for name, path in MODULES.items() if name not in inside and imported(path, MODULES) & inside}


@pytest.mark.parametrize("room", ["training", "grid", "cli", "bench", "data", "models"])
def test_reports_know_records_and_nothing_of_training(room):
    assert not [name for name in importers(f"aon.lab.{room}") if name.startswith("aon.lab.report")]


def test_nothing_imports_the_command_line():
    assert importers("aon.lab.cli") == {"aon.lab.__main__"}


@pytest.mark.parametrize("module", LIBRARY)
def test_the_library_needs_torch_and_nothing_else(module):
    roots = {name.split(".")[0] for name in imported(MODULES[module], MODULES)}
    assert roots <= {"aon", "torch", *sys.stdlib_module_names}


def test_the_library_never_imports_the_laboratory():
    assert not importers("aon.lab")


def test_the_picture_in_the_document_is_that_of_the_code():
    text = (REPOSITORY / "docs" / "design.md").read_text(encoding="utf-8")
    assert text == put(text, diagram()), "run `python scripts/draw_arrows.py`"


def test_importing_the_library_loads_no_torch_and_using_it_no_laboratory():
    program = "import sys, aon; {}; print([m for m in sys.modules if m.startswith(('aon.lab', 'torch'))])"
    loaded = {}
    for use in ("pass", "[getattr(aon, name) for name in aon.__all__]"):
        command = [sys.executable, "-c", program.format(use)]
        loaded[use] = ast.literal_eval(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    nothing, all_names = loaded.values()
    assert nothing == []
    assert "torch" in all_names
    assert not [name for name in all_names if name.startswith("aon.lab")]


def test_the_library_works_where_no_extra_is_installed():
    """Every package of the extras is made to fail on import."""
    extras = (
        "numpy",
        "scipy",
        "matplotlib",
        "rich",
        "typer",
        "pydantic",
        "safetensors",
        "jinja2",
        "onnx",
        "PIL",
        "transformers",
    )
    program = (
        "import sys\n"
        f"for name in {extras!r}: sys.modules[name] = None\n"
        "import warnings; warnings.simplefilter('ignore')\n"
        "import torch, aon\n"
        "from torch import nn\n"
        "model = aon.normalise(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4, 2)))\n"
        "model(torch.ones(1, 3, 3, 3)).sum().backward()\n"
        "print(aon.spectra(model)); aon.fold(model); print('done')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip().endswith("done"), done.stderr


def test_public_names():
    """`__all__` is what type checkers see imported, sorted; each name is there when used, from the same module."""
    tree = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    shown = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module.startswith("aon")]
    brought = {alias.name: node.module for node in shown for alias in node.names}
    assert sorted(aon.__all__) == list(aon.__all__) == sorted(brought)
    for name, module in brought.items():
        home = importlib.import_module(f"aon.{name}" if module == "aon" else module)
        assert getattr(aon, name) is (home if module == "aon" else getattr(home, name))
    assert {"normalise", "fold", "normalised_weight", "spectra", "functional"} <= set(aon.__all__) <= set(dir(aon))


def test_a_name_that_the_library_does_not_have():
    with pytest.raises(AttributeError, match="module 'aon' has no attribute 'normalize'"):
        aon.normalize  # noqa: B018


@pytest.mark.parametrize("module", LIBRARY)
def test_modules_with_a_list_of_public_names_keep_it(module):
    loaded = importlib.import_module(module)
    for name in getattr(loaded, "__all__", ()):
        assert hasattr(loaded, name), f"{module}.__all__ names {name}"


def with_code():
    """Modules of the library that hold code of their own: neither packages nor public names for a module elsewhere."""
    for module in LIBRARY:
        if MODULES[module].name == "__init__.py":
            continue
        tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
        if any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in tree.body):
            yield module


@pytest.mark.parametrize("module", list(with_code()))
def test_tests_mirror_the_source(module):
    *folders, name = module.split(".")[1:]
    assert Path(__file__).parent.joinpath(*folders, f"test_{name}.py").exists()


@pytest.mark.parametrize("room", [name for name in packages(MODULES) if name.count(".") == 2 and ".lab." in name])
def test_every_room_of_the_laboratory_has_tests(room):
    assert list(Path(__file__).parent.joinpath(*room.split(".")[1:]).rglob("test_*.py"))


def test_no_grab_bags():
    assert not {"utils", "misc", "helpers", "common"} & {part for name in MODULES for part in name.split(".")}
