"""Run conformance vectors: TOML files that hold a case and its expected answer.

`run_suite` takes files and directories in the public vector format and says which level of conformance they show:

    report = run_suite(["conformance"])
    report.level, report.failed

The format, with the fields this package adds to it, is described in the reference under "Conformance vectors".
"""

from cupel.conformance._suite import ConformanceLevel, SuiteReport, VectorResult, run_suite, run_vector
from cupel.conformance._vector import Vector, VectorError, VectorLevel, find_vectors, load_vector

__all__ = [
    "ConformanceLevel",
    "SuiteReport",
    "Vector",
    "VectorError",
    "VectorLevel",
    "VectorResult",
    "find_vectors",
    "load_vector",
    "run_suite",
    "run_vector",
]
