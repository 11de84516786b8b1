"""Puts the viewer of `coranet review` into the wheel; a checkout gets it with `make viewer`."""

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

REVIEW = Path("src/coranet/review")


class ViewerHook(BuildHookInterface):  # type: ignore[type-arg]
    """Loads the file before the wheel is packed."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Editable installs are left alone, so that tests and demo need no network but PyPI."""
        if self.target_name != "wheel" or version == "editable":
            return
        root = Path(self.root)
        file = runpy.run_path(str(root / REVIEW / "viewer.py"))["fetch"](root / REVIEW / "static")
        build_data["force_include"][str(file)] = f"coranet/review/static/{file.name}"
