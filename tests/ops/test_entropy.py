"""Entropies and divergences against their sums in float64, at their bounds, and where probabilities vanish."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from coranet.ops.entropy import entropy, js_divergence, kl_divergence

Array = NDArray[np.float64]


def distributions(seed: int, classes: int, shape: tuple[int, ...], sharpness: float = 2.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.softmax(torch.randn(2, classes, *shape, generator=generator, dtype=torch.float64) * sharpness, dim=1)


def sum_of(p: Array, q: Array) -> Array:
    """Σ_k p_k log q_k, pixel by pixel, with 0 log 0 = 0."""
    out = np.zeros((p.shape[0], *p.shape[2:]))
    for b, *z in np.ndindex(*out.shape):
        for k in range(p.shape[1]):
            if p[b, k, *z] > 0:
                out[b, *z] += p[b, k, *z] * math.log(q[b, k, *z])
    return out


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("shape", [(5, 4), (3, 4, 2)])
def test_against_their_definitions(classes: int, shape: tuple[int, ...]) -> None:
    first, second, third = (distributions(seed, classes, shape) for seed in range(3))
    p, q, r = (x.numpy() for x in (first, second, third))
    np.testing.assert_allclose(entropy(first), -sum_of(p, p), atol=1e-12)
    np.testing.assert_allclose(kl_divergence(first, second), sum_of(p, p) - sum_of(p, q), atol=1e-12)
    middle = (p + q + r) / 3
    expected = np.mean([sum_of(x, x) - sum_of(x, middle) for x in (p, q, r)], axis=0)
    np.testing.assert_allclose(js_divergence(first, second, third), expected, atol=1e-12)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 6), st.floats(0.1, 30))
def test_bounds(seed: int, classes: int, sharpness: float) -> None:
    p, q = (distributions(seed + i, classes, (4, 3), sharpness) for i in (0, 1))
    assert (entropy(p) >= 0).all()
    assert (entropy(p) <= math.log(classes) + 1e-9).all()
    assert (kl_divergence(p, q) >= -1e-9).all()
    assert (js_divergence(p, q) >= -1e-9).all()
    assert (js_divergence(p, q) <= math.log(2) + 1e-9).all()
    torch.testing.assert_close(js_divergence(p, q), js_divergence(q, p))
    torch.testing.assert_close(kl_divergence(p, p), torch.zeros(2, 4, 3, dtype=torch.float64))


def test_the_extremes() -> None:
    even, sure = torch.full((1, 4, 2, 2), 0.25), torch.zeros(1, 4, 2, 2)
    sure[:, 1] = 1
    other = sure.roll(1, dims=1)
    torch.testing.assert_close(entropy(even), torch.full((1, 2, 2), math.log(4)))
    assert torch.equal(entropy(sure), torch.zeros(1, 2, 2))
    torch.testing.assert_close(kl_divergence(sure, even), torch.full((1, 2, 2), math.log(4)))
    torch.testing.assert_close(js_divergence(sure, other), torch.full((1, 2, 2), math.log(2)))
    assert torch.isfinite(kl_divergence(sure, other)).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_are_finite_where_a_probability_is_zero(dtype: torch.dtype) -> None:
    """A network that is quite sure must not turn into one that is not a number."""
    logits = torch.tensor([[[300.0], [-300.0]]]).requires_grad_()
    p = torch.softmax(logits, dim=1).to(dtype)
    total = entropy(p) + kl_divergence(p, p.flip(1)) + js_divergence(p, p.flip(1))
    assert total.dtype == torch.float32
    total.sum().backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
