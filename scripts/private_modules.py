"""An import-linter contract: a private module is imported only from within the package that holds it.

What lies below `cupel.slicers._base` belongs to `cupel.slicers`; what begins with `cupel._` belongs to all of cupel.
"""

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output


class PrivateModulesContract(Contract):
    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002, FBT001 - the base's signature
        breaches = [
            f"{importer}:{detail['line_number']} imports {imported}"
            for importer in sorted(graph.modules)
            for imported in sorted(graph.find_modules_directly_imported_by(importer))
            if not _belongs(importer, _owner(imported))
            for detail in graph.get_import_details(importer=importer, imported=imported)
        ]
        return ContractCheck(kept=not breaches, metadata={"breaches": breaches})

    def render_broken_contract(self, check: ContractCheck) -> None:
        output.print_error("Private modules of other packages:")
        for breach in check.metadata["breaches"]:
            output.indent_cursor()
            output.print_error(breach)


def _owner(module: str) -> str | None:
    """Return the package that a private module belongs to, or None for a public one."""
    names = module.split(".")
    private = [place for place, name in enumerate(names) if name.startswith("_") and not name.endswith("__")]
    return ".".join(names[: private[0]]) if private and private[0] else None


def _belongs(module: str, owner: str | None) -> bool:
    return owner is None or module == owner or module.startswith(f"{owner}.")
