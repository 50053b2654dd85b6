"""The program `aon`, also `python -m aon.lab`. Without the extra [lab] it says in one line what is missing."""

import sys
from collections.abc import Callable


def main() -> None:
    """Run the command line."""
    try:
        _command_line()()
    except KeyboardInterrupt:  # before the command line handles it itself
        sys.stderr.write("aon: stopped at once\n")
        sys.exit(130)


def _command_line() -> Callable[[], None]:
    try:
        from aon.lab.cli.app import main as run
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("aon"):
            raise
        sys.exit(f"aon: the command needs {missing.name!r}, which is not installed: install aon with its extra [lab]")
    return run


if __name__ == "__main__":
    main()
