"""A scikit-learn pipeline whose last step learns across hospitals.

    python examples/pipeline.py

Metadata routing brings the hospital of each row to the model, through the pipeline, the search
for the number of features and the cross-validation around it.
"""

import numpy as np
import pandas as pd
import sklearn
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import fedsparse as fs

HOSPITALS = ("Bari", "Cork", "Delft", "Essen", "Faro")


def patients(count=300, markers=200):
    """A table with gaps and a column of words; recovery depends on age, ward and two markers."""
    random = np.random.default_rng(0)
    values = random.standard_normal((count, markers))
    table = pd.DataFrame(values, columns=[f"marker {number}" for number in range(markers)])
    table["age"] = random.integers(20, 90, count)
    table["ward"] = random.choice(["surgery", "medicine", "eye"], count)
    days = 10 + 0.2 * table["age"] + 3 * values[:, 4] - 2 * values[:, 11]
    days += 4 * (table["ward"] == "surgery") + random.standard_normal(count)
    table = table.mask(random.random(table.shape) < 0.01)
    return table, days, random.choice(HOSPITALS, count)


def main():
    """Print which features are chosen and how well they predict."""
    sklearn.set_config(enable_metadata_routing=True)
    table, days, hospitals = patients()
    prepare = make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), ["ward"]),
        remainder=SimpleImputer(),
        verbose_feature_names_out=False,
    )
    pipeline = make_pipeline(prepare, fs.FedSparseRegressor())
    search = GridSearchCV(pipeline, {"fedsparseregressor__sparsity": [1, 2, 4, 8]})

    search.fit(table, days, sites=hospitals)
    print("features   R² on held-out rows")
    for sparsity, score in zip(
        search.cv_results_["param_fedsparseregressor__sparsity"],
        search.cv_results_["mean_test_score"],
        strict=True,
    ):
        print(f"{sparsity:>8}   {score:.3f}")

    model = search.best_estimator_[-1]
    names = search.best_estimator_[:-1].get_feature_names_out()
    print("\nthe best:", ", ".join(names[model.support_]))

    # The search is inside: choosing the number of features is judged, too.
    known = cross_val_score(search, table, days, params={"sites": hospitals})
    new = cross_val_score(
        search, table, days, cv=LeaveOneGroupOut(),
        params={"sites": hospitals, "groups": hospitals},
    )  # fmt: skip
    print(f"new patients of these hospitals: R² = {known.mean():.3f} ± {known.std():.3f}")
    print(f"patients of a new hospital:      R² = {new.mean():.3f} ± {new.std():.3f}")


if __name__ == "__main__":
    main()
