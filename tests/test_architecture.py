"""Who may import whom: read from the source, so that a wrong arrow fails here and not in a review."""

import ast
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import aon

ROOT = Path(aon.__file__).parent
LIBRARY = sorted(path.stem for path in ROOT.glob("*.py") if path.stem != "__init__")
# From the ground up; a module may import only from lines before its own.
LAYERS = [
    {"polynomials", "text", "products", "roots", "matrices"},
    {"gram"},
    {"settings", "matrix_polynomial", "power", "reference", "sharing"},
    {"selection", "fused", "fused_whitening"},
    {"functional", "orthogonal", "renorm", "whitening"},
    {"maps"},
    {"layers"},
    {"fast_paths", "surveys", "accumulation"},
    {"convert", "penalties", "bounding"},
    {"spectra"},
]
HEIGHT = {module: height for height, line in enumerate(LAYERS) for module in line}


def imports(path: Path) -> set[str]:
    """Every module that a file imports, wherever the import stands, as dotted names."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import"
            assert node.module is not None
            found |= {f"{node.module}.{alias.name}" for alias in node.names} if node.module == "aon" else {node.module}
    return found


def own(path: Path) -> set[str]:
    """First names below `aon` that a file imports."""
    return {name.split(".")[1] for name in imports(path) if name.startswith("aon.")}


def test_every_module_has_its_place():
    assert set(LIBRARY) == set(HEIGHT), "a new module needs a line in LAYERS"


@pytest.mark.parametrize("module", LIBRARY)
def test_arrows_go_down(module):
    wrong = {other for other in own(ROOT / f"{module}.py") if HEIGHT.get(other, len(LAYERS)) >= HEIGHT[module]}
    assert not wrong, f"{module} must not import {', '.join(sorted(wrong))}"


@pytest.mark.parametrize("module", [*LIBRARY, "__init__"])
def test_the_library_needs_torch_and_nothing_else(module):
    roots = {name.split(".")[0] for name in imports(ROOT / f"{module}.py")}
    assert roots <= {"aon", "torch", *sys.stdlib_module_names}


@pytest.mark.parametrize("module", [*LIBRARY, "__init__"])
def test_the_library_never_imports_the_laboratory(module):
    assert "lab" not in own(ROOT / f"{module}.py")


def test_importing_the_library_loads_no_laboratory():
    program = "import sys, aon; print([m for m in sys.modules if m.startswith('aon.lab')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


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
    """`__all__` is what `__init__` imports, sorted, and each name is there."""
    tree = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    brought = {
        alias.asname or alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert sorted(aon.__all__) == list(aon.__all__) == sorted(brought)
    assert all(hasattr(aon, name) for name in aon.__all__)
    assert {"normalise", "fold", "normalised_weight", "spectra", "functional"} <= set(aon.__all__)


def test_init_holds_public_names_and_nothing_else():
    tree = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    assert all(isinstance(node, ast.Expr | ast.ImportFrom | ast.Assign) for node in tree.body)


def test_modules_with_a_list_of_public_names_keep_it():
    for info in pkgutil.iter_modules([str(ROOT)]):
        module = __import__(f"aon.{info.name}", fromlist=["x"]) if info.name in LIBRARY else None
        for name in getattr(module, "__all__", ()):
            assert hasattr(module, name), f"aon.{info.name}.__all__ names {name}"


@pytest.mark.parametrize("module", LIBRARY)
def test_tests_mirror_the_source(module):
    assert (Path(__file__).parent / f"test_{module}.py").exists()


def test_no_grab_bags():
    assert not {"utils", "misc", "helpers", "common"} & set(LIBRARY)
