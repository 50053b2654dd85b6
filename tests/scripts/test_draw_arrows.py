"""The picture of arrows, on a small package made for it."""

from pathlib import Path

import pytest
from scripts.draw_arrows import BEGIN, END, INIT, arrows, main, modules, packages, picture, put, reduced

FILES = {
    "aon/__init__.py": "from aon.top import verb",
    "aon/top.py": "from aon.room import low\nfrom aon.room.low import noun",
    "aon/room/__init__.py": '"""A room."""',
    "aon/room/low.py": "import torch",
    "aon/room/high.py": "def later():\n    from aon.room import low, something",
    "aon/lab/__init__.py": "",
    "aon/lab/here.py": "import aon\nfrom aon import top",
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_arrows_between_the_parts_of_each_package(source):
    known = modules(source)
    assert packages(known) == ["aon", "aon.lab", "aon.room"]
    assert arrows("aon", known) == {INIT: {"top"}, "top": {"room"}, "room": set(), "lab": {INIT, "top"}}
    # A name that is no module is the package's own.
    assert arrows("aon.room", known) == {INIT: set(), "low": set(), "high": {"low", INIT}}


def test_a_relative_import_is_refused(source):
    (source / "aon/room/low.py").write_text("from . import high")
    with pytest.raises(ValueError, match="relative import in line 1"):
        arrows("aon", modules(source))


def test_arrows_that_follow_from_others_are_left_out():
    graph = {"a": {"b", "c", "d"}, "b": {"c"}, "c": {"d"}, "d": set()}
    assert reduced(graph) == {"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": set()}
    assert picture(graph) == "```mermaid\nflowchart TD\n    a --> b\n    b --> c\n    c --> d\n```"


def test_only_what_stands_between_the_marks_changes():
    assert put(f"before\n{BEGIN}\nold\n{END}\nafter", "new") == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter"


@pytest.mark.parametrize("text", ["", BEGIN, f"{END} {BEGIN}", f"{BEGIN} {END} {END}"])
def test_marks_must_be_there_once_and_in_order(text):
    with pytest.raises(ValueError, match="once each"):
        put(text, "new")


def test_the_command_writes_the_file_or_says_why_not(tmp_path, capsys):
    file = tmp_path / "design.md"
    file.write_text(f"{BEGIN}{END}\nthe rest")
    assert main([str(file)]) == 0
    assert "kernels" in file.read_text()
    assert file.read_text().endswith(f"{END}\nthe rest")
    assert main([str(tmp_path / "none.md")]) == 1
    assert "none.md" in capsys.readouterr().err
