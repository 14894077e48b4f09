"""Made-up patients of five hospitals: what a few columns of many do to a relapse is known."""

import numpy as np
import polars as pl

from fedsparse.arrays import FloatArray
from fedsparse.checks import check_seed

PATIENTS = {"bari": 130, "cork": 90, "delft": 140, "essen": 80, "faro": 60}
"""How many each hospital has."""

EFFECTS = {
    "age": 0.9,
    "crp": 1.0,
    "albumin": -1.0,
    "gene_017": 1.4,
    "gene_058": -1.2,
    "gene_144": 1.0,
}
"""Change of the log-odds of a relapse as a column rises by one standard deviation."""

GENES = 200

MISSING = 0.04
"""Share of the values of albumin and sodium."""


def hospital_tables(seed: int = 0) -> dict[str, pl.DataFrame]:
    """Draw a table for each hospital: a patient a row, sex, age, five lab values and 200 genes.

    Whether a patient relapses depends on the columns of `EFFECTS` alone. A few values of albumin
    and sodium are missing.

    Parameters
    ----------
    seed
        Fixes all that is drawn.

    Examples
    --------
    >>> tables = hospital_tables()
    >>> list(tables), tables["faro"].shape
    (['bari', 'cork', 'delft', 'essen', 'faro'], (60, 209))
    >>> tables["faro"].columns[:9]
    ['patient', 'relapse', 'sex', 'age', 'crp', 'albumin', 'haemoglobin', 'creatinine', 'sodium']
    """
    check_seed(seed)
    random = np.random.default_rng(seed)
    return {name: _table(name, rows, random) for name, rows in PATIENTS.items()}


def _table(hospital: str, rows: int, random: np.random.Generator) -> pl.DataFrame:
    measured = {
        "age": np.clip(random.normal(63, 11, rows), 18, 95).round(),
        "crp": random.gamma(2.0, 6.0, rows).round(1),  # mg/l
        "albumin": random.normal(39, 4.5, rows).round(1),  # g/l
        "haemoglobin": random.normal(13.4, 1.5, rows).round(1),  # g/dl
        "creatinine": random.gamma(14.0, 6.0, rows).round(),  # µmol/l
        "sodium": random.normal(139.5, 3.0, rows).round(),  # mmol/l
    }
    for number in range(1, GENES + 1):
        measured[f"gene_{number:03}"] = random.normal(8.0, 1.5, rows).round(2)
    log_odds = sum(effect * _in_deviations(measured[name]) for name, effect in EFFECTS.items())
    table = pl.DataFrame(
        {
            "patient": [f"{hospital[:2].upper()}-{number:04}" for number in range(1, rows + 1)],
            "relapse": np.where(log_odds + random.logistic(size=rows) > 0, "yes", "no"),
            "sex": random.choice(["female", "male"], rows),
            **measured,
        }
    )
    table = table.with_columns(pl.col("age", "creatinine", "sodium").cast(pl.Int64))
    return table.with_columns(_with_holes(table[name], random) for name in ("albumin", "sodium"))


def _with_holes(values: pl.Series, random: np.random.Generator) -> pl.Series:
    """The same, a few of them missing."""
    missing = pl.Series(random.random(values.len()) < MISSING)
    return values.set(missing, None)


def _in_deviations(values: FloatArray) -> FloatArray:
    """How many standard deviations values lie above their mean."""
    above: FloatArray = (values - values.mean()) / values.std()
    return above
