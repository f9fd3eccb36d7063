"""Networks have the published sizes, can be asked for by name, and compute one thing however they are run."""

import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.tracking.sesiam import bench
from vergence.tracking.sesiam.model import build


@pytest.mark.parametrize(
    ("name", "size", "features", "response"),
    [
        ("siamfc", "tiny", (64, 5), (1, 9, 9)),
        ("se-siamfc", "tiny", (64, 5), (3, 9, 9)),
        ("siamfc", "mnist", (256, 13), (1, 17, 17)),
        ("se-siamfc", "mnist", (256, 13), (3, 17, 17)),
        ("siamfc", "otb", (256, 6), (1, 17, 17)),
        ("siamfc+", "otb", (512, 5), (1, 17, 17)),
        ("se-siamfc", "otb", (512, 5), (3, 17, 17)),
    ],
)
def test_maps_have_the_published_sizes(name, size, features, response):
    with torch.device("meta"):
        network = build(name, size=size)
        crops = [torch.empty(2, 3, side, side) for side in (network.template_size, network.search_size)]
        for mode in (True, False):
            network.train(mode)
            template, search = map(network.features, crops)
            assert template.shape == (2, features[0], features[1], features[1])
            assert network.connect(template, search).shape == (2, *response)
        assert network(*crops).shape == (2, *response[1:])
    assert len(network.scales) == response[0]


def test_scales_can_be_kept_up_to_the_connection():
    network = build("se-siamfc", size="tiny", width=0.34, outer_pooling="none", targets=(0.5**0.5, 1.0, 2**0.5)).eval()
    template, search = torch.randn(1, 3, 63, 63), torch.randn(2, 3, 127, 127)
    with torch.no_grad():
        features = network.features(search)
        assert features.shape == (2, 24, 3, 13, 13)
        assert network.connect(network.features(template), features).shape == (2, 3, 9, 9)
        network.connection = "correlation"
        expected = sum(
            network.plan.gain * torch.nn.functional.conv2d(features[:, :, s], network.features(template)[:, :, s])
            for s in range(3)
        )
        torch.testing.assert_close(
            network.connect(network.features(template), features), expected, rtol=1e-3, atol=1e-5
        )


@pytest.mark.parametrize(
    ("name", "size", "width"), [("se-siamfc", "otb", 0.25), ("siamfc+", "otb", 0.25), ("se-siamfc", "tiny", 1.0)]
)
def test_evaluation_is_the_same_with_and_without_gradients(name, size, width):
    torch.manual_seed(0)
    network = build(name, size=size, width=width)
    x = torch.randn(2, 3, network.template_size, network.template_size)
    network.features(x)  # statistics
    network.eval()
    with torch.no_grad():
        fast = network.features(x)
    torch.testing.assert_close(fast, network.features(x), rtol=1e-4, atol=1e-5)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        low = network.features(x)
    assert low.dtype == torch.float32
    assert 0 < (low - fast).square().mean() < 1e-3 * fast.square().mean()
    with torch.no_grad():
        assert (network.features(x) == fast).all()  # what was made ready for one type serves none but that


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("se-siamfc", {}),
        ("se-siamfc", {"extent": 1, "stem_size": 13}),
        ("se-siamfc", {"extent": 3, "outer_pooling": "none"}),
        ("se-siamfc", {"inner_pooling": "none"}),
        ("se-siamfc", {"inner_pooling": "first", "scales": (1.0, 1.5)}),
        ("se-siamfc", {"borders": ("zeros", "circular")}),
        ("siamfc+", {}),
    ],
)
def test_single_precision_takes_another_way_to_the_same_features(name, options, monkeypatch):
    """In double precision there is none of what is prepared, tiled or taken scale by scale."""
    monkeypatch.setattr("vergence.nn.prepared.FEWEST", 16)
    torch.manual_seed(0)
    network = build(name, size="otb", width=0.25, connection="correlation", **options)
    x = torch.randn(2, 3, 103, 103)  # two cells along a side
    network.features(x)  # statistics
    network.eval()
    with torch.no_grad():
        single = network.features(x)
        double = network.double().features(x.double())
    assert double.std() > 0.01
    torch.testing.assert_close(single.double(), double, rtol=1e-4, atol=1e-4 * float(double.abs().max()))


@pytest.mark.slow
def test_the_contestants_of_a_frame_give_one_response():
    contest = next(bench.contests())
    ours, theirs = contest.ours(), contest.rivals["direct"]()
    assert theirs.std() > 0.01
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4 * float(theirs.abs().max()))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("siamfx", {}, "no network of size 'otb' named 'siamfx'"),
        ("siamfc+", {"size": "mnist"}, "no network of size 'mnist'"),
        ("siamfc", {"size": "large"}, "no size of tracking networks named 'large'"),
        ("siamfc", {"connection": "convolution"}, "no connection named 'convolution'"),
        ("siamfc", {"scale": (1.0,)}, "no option of tracking networks named 'scale'.*did you mean 'scales'"),
        ("se-siamfc", {"size": "tiny", "outer_pooling": "none"}, "targets"),
        ("se-siamfc", {"scales": (2.0, 1.0)}, "scales are positive and grow"),
        ("siamfc", {"targets": ()}, "targets"),
        ("siamfc", {"width": 0.0}, "width"),
    ],
)
def test_what_there_is_not_is_named(name, options, message):
    with pytest.raises(VergenceError, match=message):
        build(name, **options)


def test_a_network_starts_only_from_its_like():
    with pytest.raises(VergenceError, match="no counterpart in the ordinary network"):
        build("se-siamfc", size="tiny").start_from(build("siamfc+", size="otb", width=0.25))
    with pytest.raises(VergenceError, match="shape"):
        build("se-siamfc", size="tiny").start_from(build("siamfc", size="tiny", width=2.0))
