"""Predictions that stand out by size."""

from coranet.evaluation.sizes import odd_sizes


def test_a_scan_whose_object_is_nearly_missed_is_named() -> None:
    sizes = {"a": {"heart": 60.0}, "b": {"heart": 0.3}, "c": {"heart": 50.0}, "d": {"heart": 7.0}, "e": {"heart": 70.0}}
    assert odd_sizes(sizes) == [
        "Far less heart than in the other scans, in % of their median: b (0.6 %), d (14.0 %). Look there first."
    ]


def test_many_are_counted() -> None:
    sizes = {f"n{i}": {"liver": 100.0} for i in range(9)} | {f"o{i}": {"liver": float(i)} for i in range(7)}
    (said,) = odd_sizes(sizes, named=5)
    assert said.startswith("Far less liver than in the other scans, in % of their median: o0 (0.0 %), o1 (1.0 %), ")
    assert said.endswith("o4 (4.0 %) and 2 more. Look there first.")


def test_usual_sizes_and_rare_objects_are_not_named() -> None:
    sizes = {f"n{i}": {"organ": 10.0 + i, "tumour": 2.0 if i == 3 else 0.0} for i in range(9)}
    assert odd_sizes(sizes) == []
    assert odd_sizes({}) == []


def test_an_object_that_is_nowhere_is_said() -> None:
    assert odd_sizes({"a": {"organ": 1.0, "cyst": 0.0}}) == ["No cyst was found in the scan."]
    assert odd_sizes({"a": {"cyst": 0.0}, "b": {"cyst": 0.0}}) == ["No cyst was found in any of the 2 scans."]


def test_a_run_that_finds_nothing_names_all_scans() -> None:
    """Their own median is near 0, and nothing would stand out beside it."""
    trained = {"organ": [40.0, 55.0, 60.0], "tumour": [0.0, 0.0, 3.0]}
    sizes = {f"s{i}": {"organ": 0.01 * i, "tumour": 0.0} for i in range(10)}
    less, none = odd_sizes(sizes, trained)
    assert less.startswith(
        "Far less organ than in the labelled cases that the run was trained on, in % of their median:"
    )
    assert all(f"s{i} (" in less for i in range(10))
    assert none == "No tumour was found in any of the 10 scans."
    (nowhere,) = odd_sizes({name: {"organ": 0.0} for name in sizes}, trained)
    assert nowhere == f"No organ was found in any of the 10 scans, where labelled cases hold 55 mL: {', '.join(sizes)}."
    assert odd_sizes({"a": {"organ": 50.0}, "b": {"organ": 20.0}}, trained) == []
