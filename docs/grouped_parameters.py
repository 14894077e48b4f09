"""For mkdocstrings: parameters that a docstring describes together keep their own types.

The parser gives all of ``data, loss, seed`` the type and the default of the first.
"""

from typing import Any

import griffe


class GroupedParameters(griffe.Extension):
    """Takes types and defaults of described parameters from the signature."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Go through everything that was read."""
        self._visit(pkg)

    def _visit(self, thing: griffe.Object) -> None:
        for member in thing.members.values():
            if isinstance(member, griffe.Object):
                self._visit(member)
        if thing.docstring is not None and isinstance(thing, (griffe.Class, griffe.Function)):
            self._correct(thing)

    def _correct(self, thing: griffe.Class | griffe.Function) -> None:
        signature = {parameter.name: parameter for parameter in thing.parameters}
        for section in thing.docstring.parsed if thing.docstring else []:
            if section.kind is griffe.DocstringSectionKind.parameters:
                for described in section.value:
                    if described.name in signature:
                        own = signature[described.name]
                        described.annotation, described.value = own.annotation, own.default
