"""Video transformers: sizes, names, and which frames each kind of temporal modelling depends on."""

from itertools import pairwise

import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.nn import Alignment, VideoViT
from vergence.nn.vit import Block, DropPath, resampled

SMALL = {"frames": 4, "image": 24, "patch": 8, "width": 16, "depth": 4, "heads": 2}


def made(**options):
    source = torch.Generator().manual_seed(0)
    model = VideoViT(5, **{**SMALL, **options}).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=source, dtype=torch.float64)
            parameter.copy_(noise * (0.3 if parameter.dim() == 1 else parameter.shape[-1] ** -0.5))
    return model


def clip(batch=2, frames=4, seed=1):
    return torch.randn(batch, frames, 3, 24, 24, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


KINDS = {
    "averaging": {"modelling": "averaging"},
    "joint": {"modelling": "joint"},
    "factorised": {},
    "ata": {"aligned": range(4)},
}
every = pytest.mark.parametrize("kind", KINDS)


def test_a_block_is_pytorchs_own_encoder_layer():
    torch.manual_seed(0)
    ours = Block(16, 4).double().eval()
    theirs = torch.nn.TransformerEncoderLayer(
        16, 4, 64, 0.0, "gelu", layer_norm_eps=1e-6, batch_first=True, norm_first=True, dtype=torch.float64
    )
    names = {"norm1": "norm1", "norm2": "norm2", "mlp.fc1": "linear1", "mlp.fc2": "linear2",
             "attn.proj": "self_attn.out_proj"}  # fmt: skip
    state = {f"{b}.{k}": ours.state_dict()[f"{a}.{k}"] for a, b in names.items() for k in ("weight", "bias")}
    state |= {f"self_attn.in_proj_{k}": ours.state_dict()[f"attn.qkv.{k}"] for k in ("weight", "bias")}
    theirs.load_state_dict(state)
    x = torch.randn(3, 7, 16, dtype=torch.float64)
    torch.testing.assert_close(ours(x), theirs.train()(x))  # in training PyTorch takes no shortcut


@every
@pytest.mark.parametrize("tubelet", [1, 2])
def test_shapes_of_logits_maps_and_matches(kind, tubelet):
    model = made(**KINDS[kind], tubelet=tubelet)
    x, frames = clip(), 4 // tubelet
    assert model(x).shape == (2, 5)
    assert model.maps(x).shape == model.maps(x, 2).shape == (2, frames, 3, 3)
    found = model.matches(x)
    assert found.shape == (2, frames - 1, 9)
    assert torch.equal(found.sort(-1).values, torch.arange(9).expand_as(found))


@every
def test_a_clip_is_answered_alike_alone_and_in_a_batch(kind):
    model, x = made(**KINDS[kind]), clip(3)
    torch.testing.assert_close(model(x)[1:2], model(x[1:2]))


def test_only_averaging_does_not_know_the_order_of_frames():
    x = clip()
    for kind, options in KINDS.items():
        model = made(**options)
        moved = (model(x.flip(1)) - model(x)).abs().max()
        assert (moved < 1e-10) == (kind == "averaging")


def test_averaging_is_the_image_model_on_every_frame():
    model, x = made(modelling="averaging"), clip()
    one = made(modelling="averaging", frames=1)
    one.load_state_dict(model.state_dict())
    tokens = [one.run(*one.embedded(x[:, t : t + 1]))[0][:, 0] for t in range(4)]
    torch.testing.assert_close(model(x), model.head(model.norm(torch.stack(tokens).mean(0))))


def test_as_made_blocks_after_the_first_start_as_the_image_model():
    torch.manual_seed(0)
    model = VideoViT(5, **SMALL)
    x = torch.randn(2, 4, 9, 16)
    assert not torch.equal(model.blocks[0].temporal(x), x)
    assert all(torch.equal(block.temporal(x), x) for block in model.blocks[1:])


def test_factorised_and_aligned_models_share_weights_by_name():
    plain, aligned = made(), made(aligned=(0, 1))
    aligned.load_state_dict(plain.state_dict())
    assert not torch.equal(plain(clip()), aligned(clip()))
    still = clip()[:, :1].expand(-1, 4, -1, -1, -1)  # no motion: all frames are the same, up to their time embeddings
    with torch.no_grad():
        for model in (plain, aligned):
            model.time_embed.zero_()
    torch.testing.assert_close(plain(still), aligned(still))


def test_aligned_everywhere_restoring_makes_no_difference_and_shuffles_do_not_either():
    x = clip()
    model, kept = (made(aligned=range(4), alignment=Alignment(after=after)) for after in ("restore", "keep"))
    torch.testing.assert_close(model(x), kept(x))
    cls, tokens = model.embedded(x)
    shuffles = torch.rand(2, 4, 9, generator=torch.Generator().manual_seed(3)).argsort(-1)
    mixed = tokens.gather(2, shuffles.unsqueeze(-1).expand_as(tokens))
    torch.testing.assert_close(model.run(cls, mixed)[0], model.run(cls, tokens)[0])
    some = made(aligned=(0, 1))
    assert not torch.allclose(some.run(cls, mixed)[0], some.run(cls, tokens)[0])


def test_shared_matches_are_found_once_and_used_again():
    x = clip()
    every_block, shared = made(aligned=range(4)), made(aligned=range(4), share=2)
    calls = []
    find = Alignment.order

    class Counted(Alignment):
        def order(self, tokens):
            calls.append(1)
            return find(self, tokens)

    every_block.alignment = shared.alignment = Counted()
    every_block(x)
    assert len(calls) == 4
    shared(x)
    assert len(calls) == 6


def test_maps_are_the_mean_over_channels():
    model, x = made(aligned=range(4)), clip()
    tokens = model.norm(model.run(*model.embedded(x))[1])
    torch.testing.assert_close(model.maps(x), tokens.mean(-1).view(2, 4, 3, 3))
    seen = {}
    model.run(*model.embedded(x), lambda index, when, tokens: seen.update({(index, when): tokens}))
    torch.testing.assert_close(model.maps(x, 1), seen[1, "temporal"].mean(-1).view(2, 4, 3, 3))
    assert torch.equal(seen[0, "enters"], model.embedded(x)[1])


def test_matches_follow_an_object_across_patches():
    model = made(aligned=range(4))
    with torch.no_grad():
        model.pos_embed.zero_()
        model.time_embed.zero_()
    patches = torch.randn(9, 3, 8, 8, generator=torch.Generator().manual_seed(4), dtype=torch.float64)

    def frame(order):
        return torch.cat([torch.cat([patches[order[3 * r + c]] for c in range(3)], 2) for r in range(3)], 1)

    orders = [list(range(9)), [2, 0, 1, 5, 3, 4, 8, 6, 7], [8, 7, 6, 5, 4, 3, 2, 1, 0], list(range(9))]
    x = torch.stack([frame(order) for order in orders]).unsqueeze(0)
    expected = [[b.index(p) for p in a] for a, b in pairwise(orders)]
    assert model.matches(x)[0].tolist() == expected


def test_drop_path_keeps_the_mean_and_leaves_evaluation_alone():
    torch.manual_seed(0)
    drop = DropPath(0.25)
    x = torch.ones(4000, 2, 3)
    out = drop(x)
    assert out.unique().tolist() == pytest.approx([0, 4 / 3])
    assert abs(float(out.mean()) - 1) < 0.05
    assert torch.equal(out[:, :1, :1].expand_as(out), out)
    assert torch.equal(drop.eval()(x), x)


def test_places_are_resampled_as_pictures_are():
    places = torch.randn(1, 10, 4, generator=torch.Generator().manual_seed(0))
    assert resampled(places, (3, 3)) is places
    larger = resampled(places, (6, 6))
    assert torch.equal(larger[:, 0], places[:, 0])
    picture = places[0, 1:].T.view(1, 4, 3, 3)
    expected = torch.nn.functional.interpolate(picture, (6, 6), mode="bicubic").flatten(2)[0].T
    torch.testing.assert_close(larger[0, 1:], expected)
    with pytest.raises(ValueError, match="do not form a square grid"):
        resampled(places[:, :-1], (3, 3))


@every
def test_gradients_reach_every_parameter(kind):
    model = made(**KINDS[kind]).train()
    model(clip()).sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in model.parameters())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"image": 25}, "image side by patch to divide, got 25 and 8"),
        ({"frames": 5, "tubelet": 2}, "frames by tubelet to divide"),
        ({"heads": 3}, "width by heads"),
        ({"depth": 0}, "at least 1"),
        ({"aligned": (4,)}, r"blocks 0 to 3 .* got \(4,\)"),
        ({"aligned": (0,), "modelling": "joint"}, "modelling=.joint."),
        ({"aligned": (0,), "share": 0}, "share = 0"),
        ({"aligned": (0,), "share": 2, "alignment": Alignment(after="keep")}, "share = 2"),
    ],
)
def test_a_model_that_cannot_be_is_refused(options, message):
    with pytest.raises(VergenceError, match=message):
        VideoViT(5, **{**SMALL, **options})


def test_other_clips_and_blocks_are_refused():
    model = made()
    with pytest.raises(VergenceError, match=r"4 x 3 x 24 x 24, got \(2, 3, 3, 24, 24\)"):
        model(clip(frames=3))
    with pytest.raises(VergenceError, match="blocks 0 to 3, got 4"):
        model.maps(clip(), 4)
    bad = clip()
    bad[0, 1] = float("nan")
    with pytest.raises(VergenceError, match="NaN"):
        made(aligned=(0,))(bad)
    with pytest.raises(VergenceError, match="frames cannot be matched"):
        model.matches(bad)
