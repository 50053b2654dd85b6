"""A griffe extension for `make docs`: shows the section `Example:` of a docstring as code that was run."""

from typing import Any

import griffe


class Examples(griffe.Extension):
    """Our docstrings say `Example:`, which griffe would take for a note; its own word is `Examples:`."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rename the section, in docstrings of modules, classes and functions."""
        if obj.docstring:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")
