"""Labels by another model: learnt before the heads know anything, and from then on unless they are certain of another."""

from dataclasses import replace

import pytest
import torch

from coranet.methods import METHODS
from coranet.methods.coranet import Targets
from coranet.methods.one_vs_rest import against_rest
from coranet.methods.other_voice import SILENT, TRIED, VOICE, heard, told_terms
from coranet.nets import body_of
from coranet.ops.losses import masked_mean
from tests import tiny
from tests.methods.subjects import Subject

HEARING = [name for name, kind in METHODS.items() if kind.hears]


def spoken_to(dims=2, classes=2, seed=0, voice=VOICE):
    """A batch in which another model has a word on the first unlabelled image, and is silent on the second."""
    one = tiny.batch(dims, classes, seed)
    word = torch.randint(0, classes, one.unlabelled.valid.shape, generator=torch.Generator().manual_seed(9))
    word[1] = SILENT
    maps = {**one.unlabelled.maps, voice: word.to(torch.uint8)}
    return replace(one, unlabelled=replace(one.unlabelled, maps=maps))


def test_those_that_hear_are_known():
    assert HEARING == ["coranet", "coranet:plus", "coranet:repaired"]


def test_a_word_is_believed_unless_the_heads_are_certain_of_another():
    sample = spoken_to().unlabelled
    label, certain = sample.maps["label"].long(), sample.maps["certain"].bool()
    word = sample.maps[VOICE].long()
    learnt, believed = heard(sample, label, certain)
    assert torch.equal(learnt[0], word[0])
    assert torch.equal(believed[0], ~certain[0] | (label[0] == word[0]))
    assert 0 < (~believed[0]).sum() < believed[0].sum()
    assert torch.equal(learnt[1], label[1])
    assert torch.equal(believed[1], certain[1])
    assert all(map(torch.equal, Targets.stored(sample), (learnt, believed)))
    silent = replace(sample, maps={name: values for name, values in sample.maps.items() if name != VOICE})
    assert all(map(torch.equal, heard(silent, label, certain), (label, certain)))


@pytest.mark.parametrize("name", HEARING)
@pytest.mark.parametrize("dims", [2, 3])
def test_words_are_learnt_in_the_first_phase_alone(name, dims):
    method, nets = Subject(name, 2).build(dims)
    first, second = (phase.name for phase in method.phases)
    one = spoken_to(dims)
    begun = dict(method.labelled_loss(nets, one, tiny.at(first)).values)
    assert {key for key in begun if key.startswith("told")} == {"told_ce"}
    assert not [key for key in method.labelled_loss(nets, one, tiny.at(second)).values if key.startswith("told")]
    sample = one.unlabelled
    logits = nets["student"](sample.image)["main"]
    spoken = sample.valid[0]
    log_p = torch.log_softmax(logits[0].double(), dim=0)
    word = sample.maps[VOICE][0].long()
    wanted = -log_p.gather(0, word.unsqueeze(0))[0][spoken].mean() / 2  # the mean over images, one of which is silent
    torch.testing.assert_close(begun["told_ce"].double(), wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", HEARING)
def test_heads_learn_from_true_labels_alone(name):
    method, nets = Subject(name, 2).build(2)
    told = {
        k: v
        for k, v in method.labelled_loss(nets, spoken_to(), tiny.at(method.phases[0].name)).values.items()
        if "told" in k
    }
    torch.stack(list(told.values())).sum().backward()
    heads = nets["student"].heads
    assert all(p.grad is None or not p.grad.any() for head in ("con", "rad") for p in heads[head].parameters())
    assert any(p.grad.any() for p in heads["main"].parameters())


def test_a_guide_weighs_nothing_where_a_word_is_doubted():
    method, nets = Subject("coranet:plus", 2).build(2)
    sample = spoken_to().unlabelled
    guide, plain = (method.guide(body_of(nets, "teacher"), one) for one in (sample, replace(sample, maps={})))
    word = sample.maps[VOICE].long()
    spoken, other = word != SILENT, word != plain.label
    assert torch.equal(guide.label, torch.where(spoken, word, plain.label))
    doubted = other & (plain.weight > 0.5)
    assert torch.equal(guide.weight, torch.where(spoken, (~doubted).float(), plain.weight))
    assert (spoken & doubted).any()
    assert torch.equal(guide.target, plain.target)


def test_words_that_were_tried_are_believed_whatever_the_heads_say():
    sample = spoken_to(voice=TRIED).unlabelled
    label, certain = sample.maps["label"].long(), sample.maps["certain"].bool()
    word = sample.maps[TRIED].long()
    learnt, believed = heard(sample, label, certain)
    assert torch.equal(learnt[0], word[0])
    assert believed[0].all()
    assert (label[0] != word[0])[certain[0]].any()  # some of it the heads contradict
    assert torch.equal(learnt[1], label[1])
    assert torch.equal(believed[1], certain[1])


@pytest.mark.parametrize("name", HEARING)
def test_words_that_were_tried_are_learnt_to_the_end(name):
    method, nets = Subject(name, 2).build(2)
    for phase in method.phases:
        terms = method.labelled_loss(nets, spoken_to(voice=TRIED), tiny.at(phase.name)).values
        assert (
            terms["told_ce"]
            == method.labelled_loss(nets, spoken_to(), tiny.at(method.phases[0].name)).values["told_ce"]
        )


def test_a_word_counts_as_much_as_a_voxel_of_a_labelled_image():
    sample = spoken_to().unlabelled
    word = sample.maps[VOICE].clone()
    word[0, 2:] = SILENT
    few = replace(sample, maps={VOICE: word})
    learn = lambda told: {"ce": masked_mean(told.image[:, 0] ** 2, told.valid)}  # noqa: E731
    terms = told_terms(few, tiny.at("pretrain"), "pretrain", learn)
    kept = sample.valid[0].clone()
    kept[2:] = False
    wanted = (few.image[0, 0] ** 2)[kept].sum() / sample.valid[0].sum() / 2  # one image of two has words at all
    torch.testing.assert_close(terms["told_ce"], wanted)


def test_nobody_speaks():
    sample = tiny.batch().unlabelled
    assert told_terms(sample, tiny.at("pretrain"), "pretrain", lambda told: {"ce": told.image}) == {}
    assert told_terms(None, tiny.at("pretrain"), "pretrain", lambda told: {"ce": told.image}) == {}


def test_of_several_objects_each_hears_its_own_word():
    word = torch.tensor([[[0, 1, 2, 3, SILENT]]], dtype=torch.uint8)
    sample = replace(tiny.batch().unlabelled, maps={VOICE: word, "2.label": word, "1.label": word})
    seen = against_rest(2, sample).maps
    assert seen[VOICE].flatten().tolist() == [0, 0, 1, 0, SILENT]
    assert set(seen) == {VOICE, "label"}
    tried = against_rest(3, replace(sample, maps={TRIED: word})).maps
    assert tried[TRIED].flatten().tolist() == [0, 0, 0, 1, SILENT]
