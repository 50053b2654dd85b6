"""The code on the pages runs and prints what they say; the commands on them exist."""

import shlex
import sys
from pathlib import Path

import click
import pytest
import torch
import typer
from scripts.page_code import commands, pages, python_blocks

from aon.lab.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in pages(ROOT)}
# Fragments that stand in the middle of a program; everything else on every page is run.
FRAGMENTS = {"README.md", "docs/performance.md"}
WITH_CODE = [name for name, text in PAGES.items() if python_blocks(text) and name not in FRAGMENTS]
# Numbers on a page were printed by one machine; another rounds differently, and training spreads that.
AGREEMENT = 0.05


def test_the_guides_have_code():
    assert {f"docs/{name}.md" for name in ("tutorial", "options", "weight_maps", "faq", "laboratory")} <= set(WITH_CODE)


@pytest.mark.filterwarnings("default")  # exporters warn about themselves
@pytest.mark.parametrize("page", WITH_CODE)
def test_code_runs_and_prints_what_the_page_says(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    torch.manual_seed(0)
    namespace: dict[str, object] = {"__name__": "page"}
    for block in python_blocks(PAGES[page]):
        source = "\n" * (block.line - 1) + block.code  # so that a traceback names the line of the page
        exec(compile(source, str(ROOT / page), "exec"), namespace)
        printed = capsys.readouterr().out
        if block.expected is not None:
            assert agree(block.expected, printed), f"{page}:{block.line} prints\n{printed}"


def agree(expected: str, printed: str) -> bool:
    """The same words in the same order, numbers about equal."""
    said, found = expected.split(), printed.split()
    return len(said) == len(found) and all(map(_same_word, said, found))


def _same_word(said: str, found: str) -> bool:
    try:
        return abs(float(said.rstrip("%,")) - float(found.rstrip("%,"))) <= AGREEMENT
    except ValueError:
        return said == found


def test_what_agrees():
    assert agree("a 1.00 2%", "a  1.01\n2%")
    assert not agree("a 1.00", "a 1.10")
    assert not agree("a 1.00", "b 1.00")
    assert not agree("a", "a a")


@pytest.mark.parametrize("page", sorted(FRAGMENTS))
def test_fragments_are_python(page):
    for block in python_blocks(PAGES[page]):
        compile(block.code, page, "exec")


COMMANDS = sorted({command for text in PAGES.values() for command in commands(text)})


def test_there_are_commands():
    assert len(COMMANDS) > 15


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_those_of_the_command_line(command):
    """Words, options and the types of their values; nothing is run."""
    args = shlex.split(command.replace("/...", ""))[1:]
    group: click.Command = typer.main.get_command(app)
    context = click.Context(group, info_name="aon")
    while hasattr(group, "get_command") and args:
        name, *args = args
        found = group.get_command(context, name)
        assert found is not None, f"{command}: there is no command {name}"
        group, context = found, click.Context(found, info_name=name, parent=context)
    group.parse_args(context, args)
