"""The program `aon`, also `python -m aon.lab`. Without the extra [lab] it says in one line what is missing."""

import sys


def main() -> None:
    """Run the command line."""
    try:
        from aon.lab.cli.app import main as run
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("aon"):
            raise
        sys.exit(f"aon: the command needs {missing.name!r}, which is not installed: install aon with its extra [lab]")
    run()


if __name__ == "__main__":
    main()
