"""What others train with: the field on the left atrium, and the paper's released code."""

from __future__ import annotations

from dataclasses import replace

from coranet.engine.run import Optim, Run, Train, versions
from coranet.feed.augmentation import Augment
from coranet.feed.windows import Patches
from coranet.methods import Method
from coranet.methods.coranet import SeparateSelfTraining
from coranet.nets import Net
from coranet.runs.presets.paper import CROP_ONLY, no_larger
from coranet.runs.presets.scans import Scans


def la_run(scans: Scans, method: Method) -> Run:
    """The field's setting for the left atrium, after UA-MT and those who followed.

    Not as there: the rate falls to zero as later ones let it (UA-MT divides it by ten every 2,500 steps); cross-entropy and
    Dice are added, not averaged, and Dice is of all classes; no dropout; the field mirrors every view, and we every other
    one along each axis, since an atrium is not its mirror image. Windows grow to what a body takes.
    """
    net = Net(body=scans.body or "vnet", width=16)
    x, y, z = scans.patch or tuple(-(-n // net.multiple) * net.multiple for n in (112, 112, 80))
    return Run(
        data=replace(
            scans.data,
            window=Patches(size=(x, y, z), stride=no_larger((18, 18, 4), (x, y, z)), blend="constant"),
            augment=Augment(rotate=0, scale=(1, 1), flip=True, turns=True),
        ),
        split=scans.split,
        net=net,
        method=replace(method, dice=1.0),
        optim=Optim(kind="sgd", lr=0.01, weight_decay=1e-4, decay="poly"),
        train=Train(steps=6_000, batch=(2, 2)),
        accel=scans.accel,
        made_with=versions(),
    )


def released_run(scans: Scans, method: Method) -> Run:
    """What the released code trains: V-Net with instance norm, heads of one convolution, 8 + 8 windows, 59 + 201 epochs.

    Unlabelled volumes are seen at their centre alone, labelled ones in the order they are listed; an epoch has the whole
    batches of unlabelled volumes (6 of 50 at 8 each).
    """
    x, y, z = scans.patch or (96, 96, 96)
    batch = (8, 8)
    epoch = max(len(scans.split.unlabelled) // batch[1], 1)
    if isinstance(method, SeparateSelfTraining):
        method = replace(method, pretrain_epochs=59, selftrain_epochs=201)
    return Run(
        data=replace(
            scans.data,
            window=Patches(
                size=(x, y, z), stride=no_larger((16, 16, 4), (x, y, z)), blend="constant", unlabelled="centre"
            ),
            augment=CROP_ONLY,
            shuffle_labelled=False,
        ),
        split=scans.split,
        net=Net(body=scans.body or "vnet", width=16, norm="instance", head_convolutions=1),
        method=method,
        train=Train(steps=260 * epoch, batch=batch, epoch=epoch),
        accel=scans.accel,
        made_with=versions(),
    )
