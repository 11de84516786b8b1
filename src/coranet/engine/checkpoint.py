"""The state of a run on disk: written atomically, with checksums, read without executing anything."""

from __future__ import annotations

import io
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from coranet.engine.checksums import checksums
from coranet.errors import InputError
from coranet.files import write_atomically

FORMAT = "coranet-checkpoint-2"
EARLIER = "coranet-checkpoint-1"
"""Without checksums."""
LAST = "last.pt"
BEST = "best.pt"
"""The weights that did best on validation cases, where there are some."""

WAY_OUT = "Use another copy of the file, or train anew."


Say = Callable[[str], None]


def warn(message: str) -> None:
    """Tell who calls from Python."""
    warnings.warn(message, stacklevel=3)


def save(path: Path, content: Mapping[str, Any]) -> None:
    """Tensors and plain values."""
    buffer = io.BytesIO()
    torch.save({"format": FORMAT, "checksums": checksums(content), **content}, buffer)
    write_atomically(path, buffer.getvalue())


def load(
    path: Path,
    device: torch.device,
    needs: Mapping[str, type] | None = None,
    *,
    run: str = "",
    say: Say = warn,
) -> dict[str, Any]:
    """What `save` wrote; a file that is anything else is refused, and never unpickled.

    Args:
        path: the file.
        device: where its tensors go.
        needs: parts that it must have, and what they are.
        run: the identity of the run that it must be of, if that has one.
        say: who is told of a file that has no checksums.
    """
    content = opened(path, device)
    written = content.pop("format", None)
    if written not in (FORMAT, EARLIER):
        raise InputError(f"{path}: not a checkpoint of coranet. Use one that `coranet train` wrote.")
    _verify(path, content, checked=written == FORMAT)
    for name, kind in (needs or {}).items():
        if not isinstance(content.get(name), kind):
            raise InputError(f"{path}: has no {name!r}, and so is not such a checkpoint. {WAY_OUT}")
    if run and content.get("run") != run:
        raise InputError(
            f"{path}: is of another run than the run.json beside it. Put the file there that belongs to it."
        )
    if written == EARLIER:
        say(f"{path}: was written by an earlier version, without checksums: damage to it would go unseen.")
    return content


def opened(
    path: Path,
    device: torch.device,
    kind: str = "checkpoint of coranet",
    origin: str = "Use one that `coranet train` wrote.",
    missing: str = "The run has saved nothing, or the folder is another one: start anew.",
) -> dict[str, Any]:
    """The content of a file that PyTorch wrote and that executes nothing.

    Args:
        path: the file.
        device: where its tensors go.
        kind: what it should be, as a person is told where it is not.
        origin: where to get one that is, in a sentence.
        missing: what to do where there is no file.
    """
    refusal = f"{path}: not a {kind}, and so not opened further. {origin}"
    try:
        if not path.exists():
            raise InputError(f"{path}: no such {kind.partition(' of ')[0]}. {missing}")
        if not path.is_file():
            raise InputError(f"{path}: is no file. {origin}")
        with path.open("rb") as file:
            start = file.read(4)
        if not start:
            raise InputError(f"{path}: not a {kind}, as it is empty. {origin}")
        if start == b"PK\x03\x04" and not zipfile.is_zipfile(path):
            raise InputError(f"{path}: is cut off: its end is missing. {origin}")
        if start != b"PK\x03\x04" or not _is_stored(path):
            raise InputError(refusal)
        content = torch.load(path, map_location=device, weights_only=True)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror or error}). Check who may read it, and the disk."
        ) from error
    except InputError:
        raise
    except Exception as error:  # whatever broken bytes make of a reader that is not ours
        raise InputError(refusal) from error
    if not isinstance(content, dict):
        raise InputError(refusal)
    return content


def _is_stored(path: Path) -> bool:
    """Whether nothing in it is packed, as PyTorch writes it: so that it takes no more memory than it has bytes."""
    with zipfile.ZipFile(path) as archive:
        parts = archive.infolist()
    sizes = sum(part.file_size for part in parts)
    return all(part.compress_type == zipfile.ZIP_STORED for part in parts) and sizes <= path.stat().st_size


def _verify(path: Path, content: dict[str, Any], *, checked: bool) -> None:
    """See that it holds plain things alone, and compare with the checksums beside it, which are taken away."""
    expected = content.pop("checksums", None)
    try:
        found = checksums(content)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{path}: not a checkpoint of coranet ({error}). Use one that `coranet train` wrote."
        ) from error
    if checked and expected != found:
        written = expected if isinstance(expected, dict) else {}
        names = [name for name in found if written.get(name) != found[name]] or ["a part is missing"]
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        raise InputError(f"{path}: is damaged: its checksums do not agree ({names[0]}{more}). {WAY_OUT}")


def load_weights(nets: Mapping[str, nn.Module], states: Mapping[str, Mapping[str, Tensor]], source: Path) -> None:
    """Put stored weights into networks that must be the same."""
    for name, net in nets.items():
        if not isinstance(states.get(name), Mapping):
            raise InputError(
                f"{source}: has no network {name!r}; it holds {', '.join(map(str, states))}. "
                "It is another method's, or of other --classes."
            )
        mine, theirs = net.state_dict(), states[name]
        different = [key for key in mine if not _is_alike(mine[key], theirs.get(key))]
        different += [key for key in theirs if key not in mine]
        if different:
            raise InputError(
                f"{source}: a checkpoint from another network; {len(different)} of its tensors differ, the first is "
                f"{different[0]}. Train with the same --dims, --net, width, classes and heads as that run."
            )
        for key, own in mine.items():
            if not torch.isfinite(theirs[key]).all() and torch.isfinite(own).all():
                raise InputError(f"{source}: {name}.{key} has values that are not finite. {WAY_OUT}")
        net.load_state_dict(theirs)


def _is_alike(mine: Tensor, theirs: object) -> bool:
    return isinstance(theirs, Tensor) and mine.shape == theirs.shape and mine.dtype == theirs.dtype
