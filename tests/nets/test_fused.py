"""Blocks computed as wholes say what their layers say one by one: networks on any device, kernels on a GPU."""

import copy
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from coranet import kernels
from coranet.nets import MakeNet, Net, fuse
from coranet.nets.layers import Upsample, max_pool, read_heads

gpu = [pytest.mark.gpu, pytest.mark.skipif(not kernels.available(), reason="no GPU with Triton")]
HEADS = {"main": 3, "con": 2, "rad": 2}


def twins(body, dims, norm, convolutions, width=4, levels=2):
    torch.manual_seed(0)
    make = MakeNet(Net(body=body, width=width, levels=levels, norm=norm, head_convolutions=convolutions), dims, 1, 3)
    plain = make(HEADS)
    whole = copy.deepcopy(plain)
    fuse(whole)
    return plain, whole


def close(mine, theirs, tolerance):
    assert (mine - theirs).norm() <= tolerance * theirs.norm() + 1e-7


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("norm", ["batch", "instance"])
@pytest.mark.parametrize("body", ["unet", "vnet", "resnet18"])
def test_a_fused_network_is_the_same_function(body, norm, dims):
    plain, whole = twins(body, dims, norm, 2)
    image = torch.randn(2, 1, *[16] * dims)
    for mode in (True, False):  # evaluation needs the running statistics of the step before it
        for net in (plain, whole):
            net.train(mode)
        found = whole(image)
        for name, logits in plain(image).items():
            close(found[name], logits, 1e-4)
    assert plain.state_dict().keys() == whole.state_dict().keys()
    for key, value in plain.state_dict().items():
        if "running" in key:
            close(whole.state_dict()[key], value, 1e-4)


def test_a_fused_network_learns_the_same():
    plain, whole = twins("vnet", 3, "batch", 2)
    image = torch.randn(2, 1, 16, 16, 16)
    for net in (plain, whole):
        sum(logits.square().mean() for logits in net(image).values()).backward()
    theirs = dict(plain.named_parameters())
    for name, parameter in whole.named_parameters():
        if parameter.grad is None:
            assert name.endswith("bias")  # before a norm: its gradient is nothing but rounding
            assert theirs[name].grad.abs().max() < 1e-5
        else:
            close(parameter.grad, theirs[name].grad, 1e-3)


def channels_last(x):
    return x.contiguous(memory_format=torch.channels_last if x.ndim == 4 else torch.channels_last_3d)


def gradients(function, tensors, seed=1):
    tensors = [tensor.detach().clone().requires_grad_() for tensor in tensors]
    found = function(*tensors)
    found = found if isinstance(found, tuple) else (found,)
    torch.manual_seed(seed)
    given = [torch.randn(one.shape, device=one.device) for one in found]
    torch.autograd.backward(found, [g.to(one.dtype) for g, one in zip(given, found, strict=True)])
    return [*(one.detach() for one in found), *(tensor.grad for tensor in tensors)]


def same(kernel, plain, tensors, tolerance=1e-2):
    """A kernel in half precision against plain operations in double, from the very same numbers."""
    mine = gradients(kernel, tensors)
    theirs = gradients(plain, [tensor.double() for tensor in tensors])
    for one, other in zip(mine, theirs, strict=True):
        close(one.double(), other, tolerance)


def half(*shape):
    return channels_last(torch.randn(*shape, device="cuda").to(torch.bfloat16))


class TestKernels:
    """On a GPU."""

    pytestmark = gpu

    @pytest.mark.parametrize("each", [False, True])
    @pytest.mark.parametrize("shape", [(2, 16, 5, 6, 7), (3, 64, 9, 11), (2, 256, 3, 3, 3), (4, 32, 33, 65)])
    def test_norm_and_relu(self, shape, each):
        from coranet.kernels import norm

        x, weight, bias = 2 * half(*shape) + 1, torch.rand(shape[1], device="cuda") + 0.5, torch.randn(shape[1]).cuda()
        assert norm.fits(x)
        running = [(torch.zeros_like(bias).to(t), torch.ones_like(bias).to(t)) for t in (torch.float, torch.double)]
        offset = torch.randn_like(bias)

        def kernel(x, weight, bias):
            kept = None if each else running[0]
            return norm.norm_relu(x, weight, bias, kept, offset, each=each, learning=True, momentum=0.1, eps=1e-5)

        def plain(x, weight, bias):
            x = x + offset.double().view(1, -1, *[1] * (x.ndim - 2))
            if each:
                return F.relu(F.instance_norm(x, None, None, weight, bias))
            return F.relu(F.batch_norm(x, *running[1], weight, bias, training=True))

        same(kernel, plain, (x, weight, bias))
        for mine, theirs in zip(*running, strict=True):
            close(mine.double(), theirs, 1e-4)
        if not each:
            evaluated = norm.norm_relu(
                x, weight, bias, running[0], offset, each=False, learning=False, momentum=0.1, eps=1e-5
            )
            shifted = x.double() + offset.double().view(1, -1, *[1] * (x.ndim - 2))
            close(evaluated.double(), F.relu(F.batch_norm(shifted, *running[1], weight.double(), bias.double())), 1e-2)
            learning = norm.norm_relu(
                x, weight.requires_grad_(), bias, running[0], offset, each=False, learning=False, momentum=0.1, eps=1e-5
            )
            assert learning.requires_grad
            close(evaluated.float(), learning.detach().float(), 1e-3)

    @pytest.mark.parametrize(("inputs", "count"), [(1, 1), (16, 1), (16, 3)])
    def test_convolution(self, inputs, count):
        from coranet.kernels import conv

        x = half(2, inputs, 10, 13, 17)
        weights = [torch.randn(16, inputs, 3, 3, 3, device="cuda").bfloat16().float() for _ in range(count)]
        assert conv.fits(x, weights[0], count)
        same(conv.conv, lambda x, *w: tuple(F.conv3d(x, one, padding=1) for one in w), (x, *weights))

    @pytest.mark.parametrize(("shape", "outputs"), [((2, 16, 5, 7, 9), 2), ((3, 64, 33, 17), 4), ((2, 32, 8, 8), 6)])
    def test_readout(self, shape, outputs):
        from coranet.kernels import readout

        dims = len(shape) - 2
        weight = torch.randn(outputs, shape[1], *[1] * dims, device="cuda").bfloat16().float()
        x, bias = half(*shape), torch.randn(outputs, device="cuda")
        assert readout.fits(x, weight)
        same(readout.readout, F.conv2d if dims == 2 else F.conv3d, (x, weight, bias))

    @pytest.mark.parametrize("ties", [False, True])
    @pytest.mark.parametrize(
        "shape", [(2, 16, 6, 10), (1, 64, 34, 6), (3, 8, 130, 66), (1, 512, 2, 4), (2, 32, 4, 6, 34)]
    )
    def test_max_pooling(self, shape, ties):
        """To the bit: nothing is computed, values are only chosen."""
        from coranet.kernels import pool

        x, plain = half(*shape), F.max_pool2d if len(shape) == 4 else F.max_pool3d
        if ties:
            x = channels_last(F.relu(x.round()))
        assert pool.fits(x)
        # Plain planes: of equal values PyTorch takes the first there.
        mine, theirs = gradients(pool.max_pool, [x]), gradients(lambda x: plain(x, 2), [x.contiguous()])
        for one, other in zip(mine, theirs, strict=True):
            assert torch.equal(one, other)

    def test_max_pooling_leaves_odd_sizes_to_the_plain_layer(self):
        from coranet.kernels import pool

        layer, x = max_pool(2), half(2, 16, 7, 8)
        fuse(layer)
        assert not pool.fits(x)
        assert torch.equal(layer(x), F.max_pool2d(x, 2))

    @pytest.mark.parametrize(
        "shape", [(2, 16, 6, 10), (1, 64, 33, 7), (3, 8, 130, 67), (16, 32, 96, 96), (2, 32, 4, 5, 34)]
    )
    def test_join(self, shape):
        from coranet.kernels import join

        skip, up, bias = half(*shape), half(*shape), torch.randn(shape[1], device="cuda")
        assert join.fits(skip, shape[1])

        def plain(skip, up, bias):
            return torch.cat([skip, up + bias.view(1, -1, *[1] * (up.ndim - 2))], dim=1)

        same(join.join, plain, (skip, up, bias))
        first, again = (gradients(join.join, (skip, up, bias)) for _ in range(2))
        assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))

    @pytest.mark.parametrize(("body", "dims"), [("vnet", 3), ("unet", 2), ("unet", 3)])
    @pytest.mark.parametrize("convolutions", [1, 2])
    def test_a_whole_network(self, convolutions, body, dims):
        plain, whole = twins(body, dims, "batch", convolutions, width=16)
        for net in (plain, whole):
            net.cuda()
        image = torch.randn(2, 1, *[32] * dims, device="cuda")
        exact = plain(image)
        with torch.autocast("cuda", torch.bfloat16):
            fast = whole(channels_last(image))
        for name, logits in exact.items():
            close(fast[name].float(), logits, 0.05)

    def test_heads_share_their_first_convolution(self, monkeypatch):
        from coranet.kernels import conv

        _, whole = twins("vnet", 3, "batch", 1, width=16)
        whole.cuda()
        calls = []
        monkeypatch.setattr(
            conv,
            "_forward",
            lambda xs, weight, original=conv._forward: calls.append(len(weight)) or original(xs, weight),
        )
        with torch.autocast("cuda", torch.bfloat16):
            read_heads(list(whole.heads.values()), half(1, 16, 8, 8, 8))
        assert calls == [48]


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("transposed", [True, False])
def test_pooling_and_joining_change_no_bit_on_a_cpu(transposed, dims):
    torch.manual_seed(0)
    x, skip = torch.randn(2, 8, *[5] * dims), torch.randn(2, 4, *[10] * dims)
    up, pool = Upsample(dims, 8, 4, transposed=transposed), max_pool(dims)
    pooled, joined = (F.max_pool2d if dims == 2 else F.max_pool3d)(skip, 2), torch.cat([skip, up(x)], dim=1)
    for fused in (False, True):
        assert up.fused is pool.fused is fused
        assert torch.equal(pool(skip), pooled)
        assert torch.equal(up.join(skip, x), joined)
        for layer in (up, pool):
            fuse(layer)


def test_pooling_and_joining_have_no_weights_of_their_own():
    _, whole = twins("unet", 2, "batch", 1)
    keys = whole.state_dict().keys()
    assert not [key for key in keys if key.startswith("pool")]
    assert {key for key in keys if key.startswith("decoders.main.up.0.")} == {
        "decoders.main.up.0.conv.weight",
        "decoders.main.up.0.conv.bias",
    }


@pytest.mark.parametrize("dims", [2, 3])
def test_the_bias_of_an_up_sampling_is_added_once_where_it_is_joined(monkeypatch, dims):
    """A stand-in for the kernel, for want of a GPU."""
    torch.manual_seed(0)
    x, skip, up = torch.randn(2, 8, *[5] * dims), torch.randn(2, 4, *[10] * dims), Upsample(dims, 8, 4, transposed=True)
    joined, seen = up.join(skip, x), []

    def join(skip, up, bias):
        seen.append(skip.shape)
        return torch.cat([skip, up + bias.view(1, -1, *[1] * dims)], dim=1)

    kernel = SimpleNamespace(fits=lambda skip, channels: skip.shape[1] == channels, join=join)
    monkeypatch.setattr("coranet.kernels.join", kernel, raising=False)
    monkeypatch.setattr(kernels, "available", lambda: True)
    fuse(up)
    torch.testing.assert_close(up.join(skip, x), joined)
    assert torch.equal(up.join(skip[:, :2], x), torch.cat([skip[:, :2], up(x)], dim=1))  # does not fit
    assert seen == [skip.shape]


@pytest.mark.parametrize("convolutions", [1, 2])
def test_heads_whose_first_convolutions_are_one_say_the_same(monkeypatch, convolutions):
    _, whole = twins("unet", 2, "batch", convolutions)
    heads, x = list(whole.heads.values()), torch.randn(2, 4, 8, 8)
    whole.eval()
    apart, seen = [head(x) for head in heads], []

    def together(convolutions, x):
        seen.append(len(convolutions))
        return [F.conv2d(x, one.weight, None, one.stride, one.padding) for one in convolutions]

    monkeypatch.setattr("coranet.nets.fused.conv_together", together)
    for mine, theirs in zip(read_heads(heads, x), apart, strict=True):
        torch.testing.assert_close(mine, theirs)
    assert seen == [len(heads)]


def test_what_does_not_fit_is_computed_plainly():
    _, whole = twins("unet", 2, "batch", 1)
    assert not isinstance(whole.encoder[0], nn.Identity)
    assert whole(torch.randn(1, 1, 16, 16))["main"].dtype is torch.float32
