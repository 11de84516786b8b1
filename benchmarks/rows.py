"""Figures with all that they depend on, and the page that is made of them."""

from __future__ import annotations

import json
import platform
import sys
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

import torch

from coranet.engine.run import versions

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure."""

    name: str
    value: float
    unit: str
    what: str
    """The work, in words."""
    must: float | None = None
    aim: float | None = None
    peer: float | None = None
    """The same work done by another, in the same unit."""
    peer_name: str = ""
    less_is_better: bool = True

    @property
    def ratio(self) -> float | None:
        """How many times better than the peer."""
        if self.peer is None:
            return None
        return round(self.peer / self.value if self.less_is_better else self.value / self.peer, 2)

    @property
    def verdict(self) -> str:
        """Against must and aim."""
        if self.must is None:
            return ""

        def reached(bound: float) -> bool:
            return self.value <= bound if self.less_is_better else self.value >= bound

        if self.aim is not None and reached(self.aim):
            return "aim"
        return "must" if reached(self.must) else "missed"


def device_name(device: torch.device) -> str:
    """What it is."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{torch.get_num_threads()} threads of {platform.processor() or platform.machine()}"


class Report:
    """Prints rows as they come, and writes them to one file at the end of each."""

    def __init__(self, name: str, device: torch.device, folder: Path = RESULTS, commit: str | None = None) -> None:
        self.path, self.device = folder / f"{name}.json", device
        self.rows: list[dict[str, object]] = []
        self.commit = commit or versions()["commit"]
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, row: Row) -> None:
        """One more."""
        content = {
            **asdict(row),
            "value": round(row.value, 4),
            "ratio": row.ratio,
            "verdict": row.verdict,
            "device": device_name(self.device),
            "torch": torch.__version__,
            "commit": self.commit,
            "date": date.today().isoformat(),
            "command": "python " + " ".join([str(Path(sys.argv[0])), *sys.argv[1:]]),
        }
        self.rows.append(content)
        self.path.write_text(json.dumps(self.rows, indent=1) + "\n")
        beside = "" if row.ratio is None else f"; {row.ratio} times {row.peer_name} ({row.peer:g})"
        print(f"{row.name:32} {row.value:10.3f} {row.unit:10} {row.verdict:6} {row.what}{beside}", flush=True)
