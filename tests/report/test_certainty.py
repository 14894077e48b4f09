"""How sure coefficients are, on the page and as a picture."""

import numpy as np
import pytest

from fedsparse.modelling.certainty import Certainty, Estimated, HowSure, Interval
from fedsparse.modelling.model import Feature, Model
from fedsparse.modelling.unsure import sentences_on_certainty
from fedsparse.report.fit.certainty_section import certainty_sections
from fedsparse.report.fit.forest_chart import ForestLook, forest_chart, forest_picture
from fedsparse.report.parts import Paragraph, Table
from fedsparse.report.pictures import save_png


def estimated(value, low, high, ratio, p_value=None):
    interval = Interval.of(value, low, high)
    return Estimated.of(interval, 10.0, has_ratio=ratio, p_value=p_value)


def model_of(ratio="odds ratio", splits=50, **changes):
    """Two features: one that is told from no effect, one that is not."""
    has_ratio = ratio is not None
    sure = Certainty(
        refitted=estimated(0.5, 0.3, 0.7, has_ratio, 0.001),
        shrunk=estimated(0.4, 0.2, 0.6, has_ratio),
        after_choosing=estimated(0.5, 0.1, 0.9, has_ratio, 0.0123) if splits else None,
    )
    unsure = Certainty(
        refitted=estimated(-0.1, -0.19, -0.01, has_ratio, 0.03),
        shrunk=estimated(-0.05, -0.12, 0.02, has_ratio),
        after_choosing=estimated(-0.2, -np.inf, np.inf, has_ratio, 1.0) if splits else None,
    )
    features = [
        Feature(name=n, column=n, coefficients=(c,), mean=0.0, scale=10.0, certainty=own)
        for n, c, own in (("age", 0.4, sure), ("shoe size", -0.05, unsure))
    ]
    return Model(
        task="binary" if has_ratio else "regression",
        target="relapse",
        classes=("no", "yes") if has_ratio else None,
        intercepts=(0.0,),
        features=tuple(features),
        columns=(),
        settings={},
        fingerprint="",
        versions={},
        how_sure=HowSure(level=0.95, ratio=ratio, splits=splits, exchanges=7),
        **changes,
    )


def tables_of(model):
    (section,) = certainty_sections(model)
    return [part.table for part in section.parts if isinstance(part, Table)]


def test_both_scales_have_a_table_with_all_three_ways():
    per_deviation, per_unit = tables_of(model_of())
    assert per_unit["Valid after the choice"][0] == "1.65 (1.11 to 2.46)"
    assert per_unit["With shrinkage"][0] == "1.49 (1.22 to 1.82)"
    assert per_deviation["As if chosen beforehand"][0] == "148 (20.1 to 1,097)"
    assert per_deviation["p-value"].to_list() == ["0.012", "1.000"]


def test_coefficients_of_numbers_are_no_ratios():
    per_deviation, per_unit = tables_of(model_of(ratio=None))
    assert per_unit["With shrinkage"][0] == "0.400 (0.200 to 0.600)"
    assert per_deviation["As if chosen beforehand"][1] == "−1.00 (−1.90 to −0.100)"


def test_what_cannot_be_said_is_not_drawn_and_explained():
    model = model_of()
    assert tables_of(model)[0]["Valid after the choice"][1] == "0.135 (no bounds)"
    drawn = forest_chart(model.features, model.how_sure, ForestLook.on_page()).to_dict()
    values = [row for rows in drawn["datasets"].values() for row in rows]
    valid = [row["feature"] for row in values if row.get("way") == "valid after the choice"]
    assert set(valid) == {"age"}
    assert "For 1 feature nothing can be said" in " ".join(sentences_on_certainty(model))


def test_without_half_samples_the_page_says_that_nothing_is_valid_after_the_choice():
    (section,) = certainty_sections(model_of(splits=0))
    text = " ".join(part.text for part in section.parts if isinstance(part, Paragraph))
    assert "Nothing here is valid after the choice" in text
    assert "Valid after the choice" not in tables_of(model_of(splits=0))[0].columns


def test_ratios_are_on_a_log_axis_that_holds_no_effect():
    model = model_of()
    drawn = forest_chart(model.features, model.how_sure, ForestLook.on_page()).to_dict()
    scales = [layer["encoding"]["x"]["scale"] for layer in drawn["layer"]]
    assert {scale["type"] for scale in scales} == {"log"}
    assert scales[0]["domain"][0] < 1 < scales[0]["domain"][1] <= 1100


@pytest.mark.parametrize("ratio", ["odds ratio", None])
def test_the_plot_is_a_picture_too(ratio, tmp_path):
    save_png(forest_picture(model_of(ratio)), tmp_path / "forest.png")
    assert (tmp_path / "forest.png").read_bytes()[1:4] == b"PNG"


def test_a_model_without_certainties_has_no_section():
    assert certainty_sections(model_of().model_copy(update={"how_sure": None})) == []
