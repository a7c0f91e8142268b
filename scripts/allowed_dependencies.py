"""An import-linter contract: some packages may use only these third-party modules, the standard library and each other.

import-linter's own `forbidden` contract needs every banned package by name; this one needs the few that are allowed.
"""

import sys
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class AllowedDependenciesContract(Contract):
    source_modules = fields.ListField(subfield=fields.StringField())
    allowed = fields.SetField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002, FBT001 - the base's signature
        roots = {module.partition(".")[0] for module in self.source_modules}  # type: ignore[attr-defined]
        fine = self.allowed | roots | sys.stdlib_module_names  # type: ignore[operator]
        breaches = [
            f"{importer}:{detail['line_number']} imports {imported}"
            for importer in sorted(graph.modules)
            if self._is_source(importer)
            for imported in sorted(graph.find_modules_directly_imported_by(importer))
            if imported.partition(".")[0] not in fine
            for detail in graph.get_import_details(importer=importer, imported=imported)
        ]
        return ContractCheck(kept=not breaches, metadata={"breaches": breaches})

    def render_broken_contract(self, check: ContractCheck) -> None:
        output.print_error(f"Only {', '.join(sorted(self.allowed))} may be imported here:")  # type: ignore[call-overload]
        for breach in check.metadata["breaches"]:
            output.indent_cursor()
            output.print_error(breach)

    def _is_source(self, module: str) -> bool:
        names: Any = self.source_modules
        return any(module == name or module.startswith(f"{name}.") for name in names)
