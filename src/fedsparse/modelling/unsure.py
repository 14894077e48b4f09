"""What is not known about coefficients, and why, in sentences."""

from fedsparse.modelling.model import Feature, Model
from fedsparse.tables.sentences import counted


def sentences_on_certainty(model: Model) -> list[str]:
    """Why intervals are missing, or not what they seem.

    Parameters
    ----------
    model
        Of a fit; one without certainties gives nothing.

    Examples
    --------
    >>> from fedsparse.modelling.certainty import Certainty, Estimated, HowSure, Interval
    >>> from fedsparse.modelling.model import Feature
    >>> own = Estimated.of(Interval.of(0.5, 0.1, 0.9), 9.0, has_ratio=True, p_value=None)
    >>> age = Feature(name="age", column="age", coefficients=(0.5,), mean=50.0, scale=9.0,
    ...               certainty=Certainty(shrunk=own))
    >>> sure = HowSure(level=0.95, ratio="odds ratio", splits=50, exchanges=9)
    >>> for sentence in sentences_on_certainty(Model(
    ...     task="binary", target="relapse", classes=("no", "yes"), intercepts=(1.0,),
    ...     features=(age,), columns=(), settings={}, fingerprint="", versions={}, how_sure=sure)):
    ...     print(sentence)
    Without shrinkage there is no finite estimate: on these rows the features predict without
    error, say the same as each other, or are nearly as many as the rows.
    For 1 feature nothing can be said that is valid after the choice: fewer than half of the halves
    chose it, or could estimate it.
    """
    sure = model.how_sure
    if sure is None:
        return []
    told = [each.certainty for each in model.features if each.certainty is not None]
    found = []
    lost = [each.name for each in model.features if _is_not_refitted(each)]
    if 0 < len(lost) < len(told):
        found.append(
            f"Without shrinkage nothing is estimated for {counted(len(lost), 'feature')}, such as "
            f"{lost[0]}: the rows say of several together what they do not say of each, as of all "
            "levels of a category, or nothing at all. What is said of the others holds."
        )
    if len(lost) == len(told):
        found.append(
            "Without shrinkage there is no finite estimate: on these rows the features predict "
            "without error, say the same as each other, or are nearly as many as the rows."
        )
    if sure.splits == 0:
        found.append(
            "Nothing here is valid after the choice: no half-samples were drawn to choose on one "
            "half of the rows and estimate on the other."
        )
        return found
    open_ = sum(
        own.after_choosing is None
        or (own.after_choosing.coefficient.low, own.after_choosing.coefficient.high) == (None, None)
        for own in told
    )
    if open_:
        found.append(
            f"For {open_} feature{'s' if open_ > 1 else ''} nothing can be said that is valid "
            f"after the choice: fewer than half of the halves chose {'them' if open_ > 1 else 'it'}"
            f", or could estimate {'them' if open_ > 1 else 'it'}."
        )
    return found


def _is_not_refitted(feature: Feature) -> bool:
    return feature.certainty is not None and feature.certainty.refitted is None
