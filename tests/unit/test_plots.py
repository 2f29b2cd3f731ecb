"""Figures: alternative text, one range, opaque background, colours that are told apart, telling errors."""

import io

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image

from attnlab import plots

TWO_LINES = {"scaled": [0.2, 0.1, 0.0], "not scaled": torch.tensor([0.3, 0.2, 0.1])}


def two_lines(**changes):
    return plots.lines([1, 2, 4], TWO_LINES, **{"x": "width", "y": "slope", "alt": "Two lines.", **changes})


def pixels(picture):
    return np.asarray(Image.open(io.BytesIO(picture.png())).convert("RGBA"))


def weights(rows=3, columns=4):
    return torch.softmax(torch.randn(rows, columns, generator=torch.Generator().manual_seed(0)), dim=-1)


def test_the_alternative_text_reaches_jupyter_and_the_text_output():
    data, metadata = two_lines()._repr_mimebundle_()
    assert metadata["image/png"]["alt"] == "Two lines."
    assert data["text/plain"] == "Figure: Two lines."
    assert metadata["image/png"]["width"] * 1.5 == pytest.approx(pixels(two_lines()).shape[1], abs=2)


@pytest.mark.parametrize("alt", ["", "  "])
def test_a_figure_without_alternative_text_is_refused(alt):
    with pytest.raises(ValueError, match="alt must say"):
        two_lines(alt=alt)


def test_the_same_figure_gives_the_same_bytes_and_another_one_does_not():
    assert two_lines().png() == two_lines().png()
    assert two_lines().png() != two_lines(log="x").png()


def test_the_background_is_opaque():
    for picture in (two_lines(), plots.matrix(weights(), alt="m"), plots.bars({"a": 1.0}, y="y", alt="b")):
        assert (pixels(picture)[..., 3] == 255).all()


def test_lines_differ_in_more_than_colour():
    drawn = two_lines().figure.axes[0].lines
    assert len({line.get_marker() for line in drawn}) == len({line.get_color() for line in drawn}) == 2
    assert drawn[0].get_linestyle() != drawn[1].get_linestyle()


def test_a_value_that_a_log_axis_cannot_show_leaves_a_gap():
    assert np.isnan(two_lines(log="y").figure.axes[0].lines[0].get_ydata()[-1])
    assert two_lines().figure.axes[0].lines[0].get_ydata()[-1] == 0


def test_attention_weights_are_always_shown_on_0_to_1():
    image = plots.matrix(0.1 * weights(), alt="m").figure.axes[0].images[0]
    assert image.get_clim() == (0, 1)
    assert image.get_cmap().name == "attnlab_weight"


def test_the_map_grows_steadily_darker():
    steps = plots.WEIGHT_MAP(np.linspace(0, 1, 20))[:, :3] @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(steps) < 0).all()


def test_small_matrices_write_their_values_and_large_ones_do_not():
    small, large = (plots.matrix(weights(n, n), alt="m").figure.axes[0].texts for n in (4, 20))
    assert len(small) == 16 and small[0].get_text() == f"{weights(4, 4)[0, 0]:.2f}" and not large


def test_masked_cells_are_hatched_and_hold_no_value():
    allowed = torch.ones(3, 3, dtype=torch.bool).tril()
    axes = plots.matrix(weights(3, 3), mask=allowed, alt="m").figure.axes[0]
    assert sum(bool(patch.get_hatch()) for patch in axes.patches) == 3 and len(axes.texts) == 6


def test_each_map_may_have_its_own_mask_and_the_scale_says_what_it_shows():
    masks = torch.ones(2, 3, 3, dtype=torch.bool)
    masks[1] = masks[1].tril()
    figure = plots.small_multiples([weights(3, 3)] * 2, mask=masks, label="influence", alt="m").figure
    hatched = [sum(bool(patch.get_hatch()) for patch in axes.patches) for axes in figure.axes[:2]]
    assert hatched == [0, 3]
    assert figure.axes[-1].get_ylabel() == "influence"


def test_tensors_that_need_gradients_and_half_precision_are_taken():
    half = weights().to(torch.bfloat16).requires_grad_()
    assert plots.matrix(half.detach(), alt="m").png() and plots.lines(
        [0, 1, 2, 3], {"a": half[0]}, x="", y="", alt="a"
    )


@pytest.mark.parametrize(
    ("draw", "says"),
    [
        (lambda: plots.matrix(torch.ones(2, 3, 4), alt="m"), r"shape \(2, 3, 4\)"),
        (lambda: plots.matrix(torch.full((2, 2), 1.7), alt="m"), "between 0 and 1, but go from 1.7"),
        (lambda: plots.matrix(torch.full((2, 2), torch.nan), alt="m"), "between 0 and 1"),
        (lambda: plots.matrix(weights(), rows=["a"], alt="m"), "rows has 1 labels, expected 3"),
        (lambda: plots.small_multiples([weights(), weights(3, 3)], alt="m"), r"one shape, but have \[\(3, 4"),
        (
            lambda: plots.matrix(weights(), mask=torch.ones(4, 3), alt="m"),
            r"shape \(4, 3\), expected \(3, 4\)",
        ),
        (lambda: two_lines(log="z"), "log must be"),
        (lambda: two_lines(roles={"scaled": "queries"}), "role 'queries' of series 'scaled'"),
        (
            lambda: plots.lines([1, 2], {"a": [1, 2, 3]}, x="", y="", alt="a"),
            r"shape \(3,\), expected \(2,\)",
        ),
    ],
)
def test_wrong_input_is_named(draw, says):
    with pytest.raises(ValueError, match=says):
        draw()


def test_own_figures_keep_the_style():
    with plots.style():
        figure = Figure()
        figure.subplots().plot([0, 1], [0, 1])
    assert plots.show(figure, alt="A line.").alt == "A line."


def luminance(colour):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


@pytest.mark.parametrize("role", plots.COLOURS)
def test_every_colour_stands_out_from_the_page(role):
    contrast = 1.05 / (luminance(plots.COLOURS[role]) + 0.05)
    assert contrast >= 4.5, f"{role}: {contrast:.2f}"


@pytest.mark.parametrize(("series", "end"), [([0.5, 0.5, 3.0], "right"), ([3.0, 0.5, 0.5], "left")])
def test_the_name_of_a_guide_stands_where_no_line_runs(series, end):
    picture = plots.lines(
        [0, 5, 10],
        {"loss": series},
        x="steps",
        y="loss",
        guides={"guessing": 0.45},
        marks=False,
        alt="A line.",
    )
    [name] = [text for text in picture.figure.axes[0].texts if text.get_text() == "guessing"]
    assert name.get_horizontalalignment() == end
