"""`coranet export`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True, kw_only=True)
class ExportVerb:
    """Write a trained network to one ONNX file, which runs without PyTorch, and recipe.json beside it.

    The file holds the main head and what its uncertainty is read from: for CoraNet the conservative and the radical head.
    Windows may have any number and size. The recipe says all that is done to a scan before and after: orientation,
    spacing, grey levels, windows and how they are blended, classes, estimator, and what `coranet calibrate` fitted.
    `coranet predict FILE.onnx SCANS --out DIR` does it. Needs the extra coranet[onnx].
    """

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The folder that `coranet train --out` made."""
    onnx: Annotated[Path, tyro.conf.arg(metavar="FILE")]
    """The file to write, such as travel/heart.onnx."""
    stride: Annotated[
        tuple[int, ...] | None,
        tyro.conf.arg(metavar="X Y [Z]", help_behavior_hint="(default: the run's, or half a window)"),
    ] = None
    """Voxels between windows that the recipe asks for."""
    best: bool = False
    """Take the weights that did best on the run's validation cases instead of the last ones."""
    no_uncertainty: bool = False
    """Leave out what is needed to say what is uncertain: the encoder and its main head alone."""
    trust: bool = False
    """Let the run's own method run, where it has one: a Python file in RUN. Read it before, if the run is not yours."""

    def __call__(self) -> int:
        """Export."""
        from coranet.cli.terminal.show import say
        from coranet.engine.prediction.fitted import Fitted
        from coranet.engine.prediction.loading import load_segmenter
        from coranet.engine.prediction.onnx_export import export
        from coranet.engine.prediction.predictor import stride_of
        from coranet.engine.run import Run

        run = Run.read(self.run, trust=self.trust)
        segmenter = load_segmenter(self.run, run, uncertainty=not self.no_uncertainty, best=self.best, say=say)
        fitted = None if self.no_uncertainty or self.best else Fitted.of(self.run, run.identity)
        stride = stride_of(run.data.window, self.stride)
        difference = export(run, segmenter, self.onnx, stride, fitted.fit if fitted else None)
        size = self.onnx.stat().st_size / 1e6
        say(f"Exported {size:.1f} MB: {self.onnx}, and {self.onnx.with_name('recipe.json')}")
        say(f"Checked with onnxruntime: probabilities of a window of noise differ by {difference:.1g} from PyTorch's.")
        return 0
