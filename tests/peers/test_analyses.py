"""The analyses in examples/notebooks: each runs, and comes to the conclusion that is written here."""

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.cli.support import Cli

ANALYSES = Path(__file__).parents[2] / "examples" / "notebooks"
MARK = "CONCLUSION "
CONCLUSIONS: dict[str, Any] = {
    "01_iris_species": {"best": "petal length (cm)", "share": 0.941},
    "02_wine_clusters": {"as_measured": 0.37, "standardised": 0.9},
    "03_breast_cancer_logistic": {"auc": 0.994, "accuracy": 0.981, "missed": 8},
    "04_diabetes_ridge": {"r2": 0.46, "strongest": ["bmi", "s5"]},
    "05_digits_knn": {"accuracy": 0.987, "mistakes": 12, "worst": 8},
    "06_digits_components": {"0.5": 5, "0.9": 21, "0.99": 41},
    "07_linnerud_correlation": {"correlation": -0.72, "below_one_percent": True},
    "08_wine_forest_importance": {"accuracy": 1.0, "top": ["alcohol", "color_intensity", "flavanoids"]},
    "09_iris_boundaries": {"1": 0.96, "2": 0.96, "3": 0.967, "4": 0.98},
    "10_diabetes_bootstrap": {"slope": 10.2, "low": 9.0, "high": 11.0},
}


def test_there_is_a_conclusion_for_each() -> None:
    assert {path.stem for path in ANALYSES.glob("*.ipynb")} == set(CONCLUSIONS)
    assert len(CONCLUSIONS) == 10


@pytest.mark.slow
@pytest.mark.native
@pytest.mark.parametrize("name", CONCLUSIONS)
def test_an_analysis_comes_to_its_conclusion(cli: Cli, name: str) -> None:
    done = cli("run", str(ANALYSES / f"{name}.ipynb"), "-o", "out.ipynb")
    assert done.returncode == 0, done.stderr
    made = json.loads((cli.directory / "out.ipynb").read_bytes())
    nbformat.validate(made, version=4, version_minor=5)
    printed = made["cells"][-1]["outputs"][0]["text"]
    assert printed.startswith(MARK)
    found = json.loads(printed.removeprefix(MARK))
    expected = CONCLUSIONS[name]
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        # Libraries of another machine may round otherwise; a conclusion stays the same.
        assert found[key] == (pytest.approx(value, rel=0.02) if isinstance(value, float) else value)
