"""Every loss, mask and average once more, from the equations alone: float64 numpy, loops over pixels, no torch.

Arrays are `(B, K, N)` for class maps and `(B, N)` for the rest, N pixels in a row: no equation here knows of space.
"""

import numpy as np


def softmax(logits):
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def cross_entropy(logits, target, costs=None):
    p = softmax(logits)
    out = np.zeros(target.shape)
    for b, z in np.ndindex(*target.shape):
        k = target[b, z]
        out[b, z] = -(1.0 if costs is None else costs[k]) * np.log(p[b, k, z])
    return out


def squared_difference(p, q):
    return sum((p[:, k] - q[:, k]) ** 2 for k in range(p.shape[1]))


def masked_mean(values, mask, valid, normalise="image"):
    if normalise == "batch":
        return region_mean(values, np.asarray(mask, bool) & np.asarray(valid, bool))
    means = []
    for v, m, inside in zip(values, mask, valid, strict=True):
        total, region, image = 0.0, 0, 0
        for z in range(len(v)):
            image += bool(inside[z])
            if m[z] and inside[z]:
                total += v[z]
                region += 1
        means.append(total / max(image if normalise == "image" else region, 1))
    return float(np.mean(means))


def soft_dice(p, target, mask, smooth=1e-5):
    scores = []
    for k in range(p.shape[1]):
        a, q = p[:, k] * mask, (target == k) * mask
        scores.append((2 * (a * q).sum() + smooth) / ((a**2).sum() + (q**2).sum() + smooth))
    return 1 - float(np.mean(scores))


def pairs(logits):
    """`(B, 2 (K - 1), N)`: first the logits of every rest, then those of every object."""
    objects = logits.shape[1] // 2
    return [np.stack([logits[:, k], logits[:, objects + k]], axis=1) for k in range(objects)]


def crm_loss(main, con, rad, label, valid, alpha):
    """L_ce + L_ce-con + L_ce-rad, each a mean over the pixels of an image, objects averaged."""
    everywhere = np.ones_like(valid)
    total = masked_mean(cross_entropy(main, label), everywhere, valid)
    for logits, costs in ((con, (alpha, 1)), (rad, (1, alpha))):
        each = [cross_entropy(pair, (label == k + 1).astype(int), costs) for k, pair in enumerate(pairs(logits))]
        total += masked_mean(np.mean(each, axis=0), everywhere, valid)
    return total


def uncertain_mask(con, rad):
    """M_uc = Y_rad xor Y_con, for any object."""
    mask = np.zeros((con.shape[0], con.shape[2]), bool)
    for c, r in zip(pairs(con), pairs(rad), strict=True):
        mask |= np.logical_xor(c.argmax(axis=1) == 1, r.argmax(axis=1) == 1)
    return mask


def crm_background_losses(con, rad, label, alpha):
    """L_ce-con and L_ce-rad at every pixel, for one cost of the background and one of all objects."""
    objects = con.shape[1] - 1
    return cross_entropy(con, label, [alpha] + [1] * objects), cross_entropy(rad, label, [1] + [alpha] * objects)


def vote(confidence, masks=None):
    """The most confident object, counted from 1, among those above one half or with their mask set; else 0."""
    labels = np.zeros((confidence.shape[0], confidence.shape[2]), int)
    for b, z in np.ndindex(*labels.shape):
        standing = confidence[b, :, z] > 0.5 if masks is None else masks[b, :, z] > 0
        best = -1.0
        for k, (stands, p) in enumerate(zip(standing, confidence[b, :, z], strict=True), start=1):
            if stands and p > best:
                labels[b, z], best = k, p
    return labels


def certain_loss(main, pseudo_label, certain, valid, normalise="image"):
    return masked_mean(cross_entropy(main, pseudo_label), certain, valid, normalise)


def consistency_loss(student, teacher, uncertain, valid, normalise="image"):
    return masked_mean(squared_difference(softmax(student), softmax(teacher)), uncertain, valid, normalise)


def region_mean(values, region):
    return float(values[region].sum() / max(region.sum(), 1))


def released_four(main, con, rad, label, region, costs, by_count):
    """CE, Dice, CE_con, CE_rad over a region of the whole batch, as the released code reduces them."""
    terms = [region_mean(cross_entropy(main, label), region), soft_dice(softmax(main), label, region)]
    for logits, cost in zip((con, rad), costs, strict=True):
        total = weight = 0.0
        for k, pair in enumerate(pairs(logits)):
            target = (label == k + 1).astype(int)
            total += cross_entropy(pair, target, cost)[region].sum()
            weight += region.sum() if by_count else sum(cost[t] for t in target[region])
        terms.append(total / max(weight, 1))
    return terms


def released_consistency(student, teacher, uncertain):
    """Mean over three heads of the squared difference, averaged over uncertain pixels; objects averaged."""
    means = [region_mean(squared_difference(softmax(student["main"]), softmax(teacher["main"])), uncertain)]
    for head in ("con", "rad"):
        each = [
            squared_difference(softmax(a), softmax(b))
            for a, b in zip(pairs(student[head]), pairs(teacher[head]), strict=True)
        ]
        means.append(region_mean(np.mean(each, axis=0), uncertain))
    return float(np.mean(means))


def ema(teacher, student, beta):
    return beta * teacher + (1 - beta) * student


def gaussian_ramp(t, length):
    return float(np.exp(-5 * (1 - min(max(t / length, 0), 1)) ** 2))
