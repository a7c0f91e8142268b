"""What the figures were measured on, without anything that names the machine."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import cupel


def facts() -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cupel": cupel.__version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": platform.system(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
