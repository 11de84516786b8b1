"""Methods side by side: what is run, skipped, continued and refused, and the table it ends in."""

import csv
import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import wilcoxon

import coranet
from coranet.cli import main
from coranet.data.datasets.folder import read_folder
from coranet.data.readers import nifti
from coranet.data.splits.by_patient import Split
from coranet.data.store import Store
from coranet.engine.log import Listener
from coranet.errors import InputError
from coranet.evaluation import Scores
from coranet.evaluation.patients import read_patients, write_patients
from coranet.evaluation.quality import read_qualities
from coranet.methods import METHODS
from coranet.report import seeds_text, standings
from coranet.runs import comparison, jobs
from coranet.runs.comparison import Job
from coranet.runs.exam import find_exam, find_store_exam
from coranet.runs.row_text import parse_row, split_rows
from coranet.signals import Interrupted, deaf_children

SETTINGS = ("net.width=4", "net.levels=2", "train.batch=[2,2]", "train.checks=1", "train.watch=false")
SMALL = [*(word for setting in SETTINGS for word in ("--set", setting)), "--device", "cpu"]


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as caught:
        main(["compare", *map(str, arguments)])
    captured = capsys.readouterr()
    return caught.value.code, captured.out, captured.err


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """A method that fails in its second step."""
    file = tmp_path_factory.mktemp("own") / "broken.py"
    file.write_text(
        "from dataclasses import dataclass\nfrom coranet.methods.supervised import Supervised\n\n"
        "@dataclass(frozen=True, kw_only=True)\nclass Broken(Supervised):\n"
        "    def after_step(self, nets, at):\n        raise RuntimeError('no\\n such luck')\n"
    )
    return f"{file}:Broken"


@pytest.fixture(scope="module")
def compared(scans, cache, broken, tmp_path_factory):
    """Two methods, two seeds and one failure, as the command makes them: exit code and folder."""
    out = tmp_path_factory.mktemp("compared") / "out"
    rows = f"coranet[regions=softmax],supervised,{broken}"
    arguments = [scans, "--methods", rows, "--seeds", 2, "--steps", 4, "--out", out, "--cache", cache, *SMALL]
    with pytest.raises(SystemExit) as caught:
        main(["compare", *map(str, arguments)])
    return caught.value.code, out, arguments


def test_rows_may_carry_settings():
    assert split_rows("a,b[x=1;y=[2,3]], c[z={'k': [1,2]}]") == ("a", "b[x=1;y=[2,3]]", "c[z={'k': [1,2]}]")
    assert parse_row("coranet[regions=tta;weights=[1,2]]") == ("coranet", {"regions": "tta", "weights": "[1,2]"})
    assert parse_row("./mine.py:Mine") == ("./mine.py:Mine", {})
    assert split_rows("all") == tuple(METHODS)
    for row in ("coranet[regions=tta", "coranet[regions]"):
        with pytest.raises(InputError, match="FIELD=VALUE"):
            parse_row(row)


def test_labels_alone_may_have_as_many_updates_as_another_method(scans, small, tmp_path):
    rows = "coranet,supervised,supervised[work=coranet]"
    options = small(steps=13, val=0)
    made = comparison.prepare(scans, tmp_path / "out", rows, 1, options, print, lambda *_: None)
    steps = {job.row: made.options_of(job).steps for job in made.jobs}
    assert steps == {"coranet": 13, "supervised": 13, "supervised[work=coranet]": 3 + 3 * 10}  # 30 : 100 epochs
    alone = comparison.plan(scans, tmp_path / "out", rows, 1, options)  # as a task of a cluster finds it
    assert alone.options_of(alone.jobs[2]) == made.options_of(made.jobs[2])
    early = comparison.plan(scans, tmp_path / "other", rows, 1, options)
    with pytest.raises(InputError, match="Begin it without --task"):
        early.options_of(early.jobs[2])
    for number, job in enumerate(made.jobs):
        assert jobs.attempt(made, job, say=lambda line: None) is None
        log = (made.folder(job) / "log.jsonl").read_text().splitlines()
        assert json.loads(log[-1])["updates"] == (33, 13, 33)[number]


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ("coranet[work=supervised]", {"steps": 4}, "work is for methods that make one update a step"),
        ("supervised[work=coranett]", {"steps": 4}, "No method is called 'coranett'"),
        ("supervised[work=coranet]", {"steps": None, "preset": "quick"}, "Give their length with --steps"),
    ],
)
def test_work_that_cannot_be_equalled_is_refused(rows, options, message, scans, small, tmp_path):
    with pytest.raises(InputError, match=message):
        comparison.prepare(scans, tmp_path / "out", rows, 1, small(**options), print, lambda *_: None)
    assert not (tmp_path / "out").exists()


def test_every_row_and_seed_is_a_run_of_its_own_and_alike(compared, broken):
    code, out, _ = compared
    assert code == 1
    names = ["coranet-regions=softmax", "supervised"]
    runs = {
        name: json.loads((out / name / "run.json").read_text()) for n in names for name in (f"{n}-seed0", f"{n}-seed1")
    }
    assert {run["method"]["kind"] for run in runs.values()} == {"coranet", "supervised"}
    assert runs["coranet-regions=softmax-seed1"]["method"]["regions"]["kind"] == "softmax"
    assert {(run["train"]["steps"], run["net"]["width"]) for run in runs.values()} == {(4, 4)}
    assert [run["seed"] for run in runs.values()] == [0, 1, 0, 1]
    assert all(run["data"] == runs["supervised-seed0"]["data"] for run in runs.values())
    for name in runs:
        assert set(Scores.read_csv(out / name / "scores.csv").by_case("dsc")) == {"phantom_007", "phantom_008"}


def test_the_table_says_what_was_scored_and_what_failed(compared, broken):
    _, out, _ = compared
    rows = list(csv.DictReader((out / "table.csv").read_text().splitlines()))
    assert [row["run"] for row in rows] == ["supervised", "coranet[regions=softmax]", broken]
    scores = [Scores.read_csv(out / f"coranet-regions=softmax-seed{seed}" / "scores.csv") for seed in (0, 1)]
    assert float(rows[1]["dsc"]) == pytest.approx(sum(one.mean()["dsc"].mean for one in scores) / 2)
    assert float(rows[1]["hd95_mm"]) == pytest.approx(sum(one.mean()["hd95_mm"].mean for one in scores) / 2)
    assert (rows[0]["ahead_p"], float(rows[1]["ahead_p"]) > 0) == ("", True)
    assert [rows[1][name] for name in ("seeds", "patients", "steps", "images")] == ["2", "2", "4", "14"]
    assert int(rows[1]["updates"]) > int(rows[0]["updates"]) == 4
    assert rows[2]["error"] == "seed 0: RuntimeError: no such luck"
    text = (out / "table.md").read_text()
    assert "RuntimeError: no such luck" in text
    assert "p = " in text
    assert len({line.count("|") for line in text.splitlines()}) == 1
    page = (out / "report.html").read_text()
    assert "no such luck" in page
    assert "coranet[regions=softmax] − supervised" in page


def test_again_only_what_is_missing_is_run(compared, capsys, monkeypatch, broken):
    _, out, arguments = compared
    before = {file: file.stat().st_mtime_ns for file in out.glob("*/scores.csv")}
    (out / "supervised-seed1" / "scores.csv").unlink()  # as if it had been stopped while it predicted
    log = (out / "supervised-seed1" / "log.jsonl").read_text()
    tried = []
    real = jobs.attempt
    monkeypatch.setattr(jobs, "attempt", lambda made, job, *rest: tried.append(job) or real(made, job, *rest))
    code, printed, err = run(capsys, *arguments)
    assert code == 1
    assert tried == [Job(broken, 0), Job("supervised", 1), Job(broken, 1)]
    assert "3 of 6 runs are finished" in err
    assert "supervised" in printed
    assert (out / "supervised-seed1" / "log.jsonl").read_text() == log
    after = {file: file.stat().st_mtime_ns for file in out.glob("*/scores.csv")}
    assert set(after) == set(before)
    assert sum(after[file] != then for file, then in before.items()) == 1


def test_a_run_that_was_cut_off_is_continued(scans, small, tmp_path):
    made = comparison.prepare(
        scans, tmp_path / "out", "supervised", 1, small(steps=4, save_every=1), print, lambda *_: None
    )
    (job,) = made.jobs

    class Stop(Listener):
        def on_begin(self, plan):
            self.first = plan.first

        def on_record(self, record):
            if record.step == 2:
                raise RuntimeError("power cut")

    options = replace(made.options, overrides=(*made.options.overrides, ("train.log_every", "1")))
    made = replace(made, options=options)
    stop = Stop()
    assert jobs.attempt(made, job, [stop], say=lambda line: None) == "RuntimeError: power cut"
    assert (made.folder(job) / jobs.ERROR).read_text().startswith("RuntimeError: power cut\n")
    assert not made.finished(job)
    listener = Stop()
    listener.on_record = lambda record: None
    assert jobs.attempt(made, job, [listener], say=lambda line: None) is None
    assert (stop.first, listener.first) == (0, 1)
    assert made.finished(job)
    assert not (made.folder(job) / jobs.ERROR).exists()


@pytest.mark.slow
def test_several_at_a_time(scans, cache, broken, tmp_path, capsys):
    arguments = ["--seeds", 1, "--steps", 2, "--jobs", 2, "--out", tmp_path / "out", "--cache", cache, *SMALL]
    code, printed, err = run(capsys, scans, "--methods", f"supervised,{broken}", *arguments)
    assert code == 1
    assert "RuntimeError: no such luck" in printed
    assert "supervised, seed 0: finished" in err
    assert (tmp_path / "out/supervised-seed0/scores.csv").exists()
    assert "windows of" in (tmp_path / "out/supervised-seed0/output.txt").read_text()


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_who_is_stopped_while_scoring_can_go_on(scans, small, tmp_path, monkeypatch, signum):
    made = comparison.prepare(scans, tmp_path / "out", "supervised", 1, small(steps=2), print, lambda *_: None)
    (job,) = made.jobs
    with monkeypatch.context() as patch:
        patch.setattr(jobs.Trained, "predict_files", lambda *arguments, **named: signal.raise_signal(signum))
        with pytest.raises(Interrupted) as caught:
            jobs.attempt(made, job, say=lambda line: None)
    assert caught.value.signum == signum
    assert not (made.folder(job) / jobs.ERROR).exists()
    assert not made.finished(job)
    assert jobs.attempt(made, job, say=lambda line: None) is None
    assert made.finished(job)


def test_a_process_that_is_started_does_not_hear_ctrl_c(tmp_path):
    """The terminal sends it to every process; those that still import would each print a traceback."""
    says = "import signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it themselves
    try:
        with deaf_children():
            child = subprocess.run([sys.executable, "-c", says], capture_output=True, text=True, check=True)
        assert child.stdout.strip() == "True"
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


class Pretended(threading.Thread):
    """In the place of a process: leaves what its row's name says."""

    exitcode = None

    def __init__(self, target, args, name):
        super().__init__()
        self.args = args
        self.sentinel = name

    def start(self):
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        super().start()

    def run(self):
        made, job = self.args
        made.folder(job).mkdir(parents=True)
        time.sleep(0.02)
        if job.row == "raises":
            (made.folder(job) / jobs.ERROR).write_text("no such luck\n\nTraceback")
        self.exitcode = {"raises": 1, "killed": -signal.SIGKILL}.get(job.row, 0)


def test_processes_are_started_some_at_a_time_and_their_errors_gathered(tmp_path, monkeypatch):
    monkeypatch.setattr(jobs, "FRESH", SimpleNamespace(Process=Pretended))
    monkeypatch.setattr(jobs.multiprocessing.connection, "wait", lambda sentinels, timeout: time.sleep(0.005))
    rows = ("good", "raises", "killed", "fine")
    made = comparison.Compare(data=tmp_path, out=tmp_path, rows=rows, seeds=2, options=None, exam=None)
    said = []
    errors = jobs.attempt_together(made, made.jobs, 3, said.append)
    assert {job.row for job in errors} == {"raises", "killed"}
    assert errors[Job("raises", 1)] == "no such luck"
    assert "SIGKILL" in errors[Job("killed", 0)]
    assert len(list(tmp_path.iterdir())) == 8
    running = most = 0
    for line in said:
        running += 1 if "started" in line else -1
        most = max(most, running)
    assert (most, running) == (3, 0)
    assert jobs.attempt_all(replace(made, out=tmp_path / "new"), 2, lambda job: None) == {
        "raises": "seed 0: no such luck",
        "killed": "seed 0: ended with SIGKILL (out of memory?)",
    }


def test_a_folder_is_continued_as_it_was_begun(compared, capsys):
    arguments = compared[2]
    code, _, err = run(capsys, *arguments, "--steps", 5)
    assert code == 1
    assert "begun with another steps (4, now 5)" in err


def test_a_folder_is_continued_after_its_scans_were_moved_but_not_on_others(compared, scans, cache, tmp_path, capsys):
    moved, rows = tmp_path / "elsewhere", "coranet[regions=softmax],supervised"
    shutil.copytree(scans, moved)
    shutil.copytree(compared[1], tmp_path / "out")
    arguments = ["--methods", rows, "--seeds", 2, "--steps", 4, "--out", tmp_path / "out", "--cache", cache, *SMALL]
    code, out, err = run(capsys, moved, *arguments)
    assert code == 0, err
    assert "runs are finished already" in out + err
    assert json.loads((tmp_path / "out/compare.json").read_text())["data"] == str(moved)
    before = (tmp_path / "out/compare.json").read_bytes()
    moved.rename(tmp_path / "others")
    scan = tmp_path / "others/imagesTr/phantom_000_0000.nii.gz"
    read = nifti.read(scan)
    nifti.write(scan, read.array[::-1].copy(), read.geometry)
    code, _, err = run(capsys, tmp_path / "others", *arguments)
    assert code == 1
    assert "begun with another data" in err
    assert (tmp_path / "out/compare.json").read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--methods", "supervised,cora"], "No method is called 'cora'"),
        (["--methods", "supervised,supervised"], "name each method once"),
        (["--methods", "coranet[beta=1],coranet[beta=1;]"], "would share a folder"),
        (["--methods", "supervised", "--seeds", 0], "at least one seed"),
        (["--methods", "supervised", "--jobs", 0], "at least one"),
        (["--methods", "supervised", "--against", "coranet"], "none of the rows"),
        (["--methods", "supervised", "--labelled", 9], "between 1 and 3"),
    ],
)
def test_refusals_come_before_any_work(scans, cache, tmp_path, capsys, changes, message):
    code, _, err = run(capsys, scans, "--out", tmp_path / "out", "--cache", cache, *SMALL, *changes)
    assert code == 1
    assert message in err
    assert not (tmp_path / "out").exists()


def test_what_is_scored(scans, tmp_path):
    names = {case.name: case.part for case in read_folder(scans).cases}
    assert find_exam(scans, None).cases == tuple(name for name, part in names.items() if part == "Ts")
    split = Split(labelled=("phantom_000",), unlabelled=("phantom_003",), test=("phantom_001", "phantom_002"))
    exam = find_exam(scans, split)
    assert (exam.images, exam.labels, exam.cases) == (scans / "imagesTr", scans / "labelsTr", split.test)
    for tests, message in (
        (("phantom_004",), "no label of the split's test cases phantom_004"),
        (("phantom_001", "phantom_007"), "lie in imagesTr and in imagesTs"),
    ):
        with pytest.raises(InputError, match=message):
            find_exam(scans, replace(split, test=tests))
    with pytest.raises(InputError, match="trains on patients of phantom_007"):
        find_exam(scans, Split(labelled=("phantom_000",), unlabelled=("phantom_007",)))


def test_nothing_to_score_is_said(scans, tmp_path):
    bare = tmp_path / "bare"
    bare.mkdir()
    for path in scans.iterdir():
        if path.name not in ("imagesTs", "labelsTs"):
            (bare / path.name).symlink_to(path)
    with pytest.raises(InputError, match="nothing to compare on"):
        find_exam(bare, None)


@pytest.fixture
def repeats(compared, tmp_path):
    """Two runs of two seeds each, with scores of seven cases that were made up."""
    rng, (row, *_) = np.random.default_rng(0), Scores.read_csv(compared[1] / "supervised-seed0/scores.csv").rows
    made = [{"one": tmp_path / f"one{seed}", "other": tmp_path / f"other{seed}"} for seed in (0, 1)]
    for folder in (folder for runs in made for folder in runs.values()):
        folder.mkdir()
        for name in ("run.json", "log.jsonl"):
            shutil.copy(compared[1] / "supervised-seed0" / name, folder)
        scored = [dict(row.values) | {"dsc": float(rng.random())} for _ in range(7)]
        rows = tuple(replace(row, case=f"case {n}", status="scored", values=v) for n, v in enumerate(scored))
        Scores(rows=rows).write_csv(folder / "scores.csv")
    return made


def test_seeds_are_averaged_case_by_case(repeats):
    one, other = (
        [Scores.read_csv(runs[name] / "scores.csv").by_case("dsc") for runs in repeats] for name in repeats[0]
    )
    first, found = standings(repeats)
    assert first.ahead is None
    assert found.each == pytest.approx([np.mean(list(seed.values())) for seed in other])
    assert found.std == pytest.approx(abs(found.each[0] - found.each[1]) / 2**0.5)
    mine, theirs = ([(seeds[0][case] + seeds[1][case]) / 2 for case in one[0]] for seeds in (other, one))
    gaps = np.subtract(mine, theirs)
    assert (found.patients.mean, found.patients.n) == (pytest.approx(np.mean(mine)), 7)
    assert found.ahead.difference == pytest.approx(gaps.mean())
    assert found.ahead.p == pytest.approx(wilcoxon(gaps).pvalue)
    turned = standings(repeats, "other")
    assert turned[1].ahead is None
    assert turned[0].ahead.difference == pytest.approx(-gaps.mean())


def test_cases_of_one_patient_are_one_witness(repeats):
    folder = repeats[0]["one"].parent
    patients = {f"case {n}": f"patient {n // 2}" for n in range(7)}
    write_patients(folder, patients)
    found = standings(repeats)[1]
    one, other = (
        [Scores.read_csv(runs[name] / "scores.csv").by_case("dsc") for runs in repeats] for name in repeats[0]
    )
    gaps = {case: np.mean([b[case] - a[case] for a, b in zip(one, other, strict=True)]) for case in patients}
    by_hand = [np.mean([gaps[case] for case in patients if patients[case] == f"patient {n}"]) for n in range(4)]
    assert found.patients.n == found.ahead.n == 4
    assert found.ahead.difference == pytest.approx(np.mean(by_hand))
    assert found.ahead.p == pytest.approx(wilcoxon(by_hand).pvalue)


def test_a_comparison_says_whose_its_test_cases_are(compared):
    assert read_patients(compared[1]) == {"phantom_007": "phantom_007", "phantom_008": "phantom_008"}


def test_seeds_in_words(repeats):
    first, second = seeds_text(repeats)
    found = standings(repeats)[1]
    title = "ahead of one [95 % over patients]"
    assert first[title] == ""
    assert second[title].endswith(f"], p = {found.ahead.p:.3f}")
    assert second["DSC %, mean ± std over seeds"] == f"{50 * sum(found.each):.1f} ± {100 * found.std:.1f}"
    assert "±" not in seeds_text(repeats[:1])[1]["DSC %, mean ± std over seeds"]


@pytest.mark.parametrize("best", [False, True])
def test_weights_that_did_best_on_validation_cases_are_scored_beside_the_last(scans, small, tmp_path, best):
    cases = read_folder(scans).cases
    labelled = [case.name for case in cases if case.part == "Tr" and case.label is not None]
    test = [case.name for case in cases if case.part == "Ts"]
    split = {"labelled": labelled[:2], "unlabelled": [], "val": labelled[2:], "test": test}
    (tmp_path / "split.json").write_text(json.dumps(split))
    options = small(steps=6, split=tmp_path / "split.json", overrides=(("train.checks", "3"),))
    made = comparison.prepare(scans, tmp_path / "out", "supervised", 1, options, lambda *_: None, lambda *_: None)
    job = Job("supervised", 0)
    assert jobs.attempt(replace(made, best=best), job, say=lambda line: None) is None
    chosen = made.folder(job) / "scores-best.csv"
    assert chosen.exists() == best
    if best:
        assert set(Scores.read_csv(chosen).by_case("dsc")) == set(test)


@pytest.fixture(scope="module")
def store(scans, tmp_path_factory):
    """The scans on a grid of half as many voxels along two axes."""
    out = tmp_path_factory.mktemp("coarse") / "store"
    spacing = [str(2 * step) for step in nifti.read(scans / "imagesTr/phantom_000_0000.nii.gz").geometry.spacing[:2]]
    with pytest.raises(SystemExit) as caught:
        main(["prepare", str(scans), "--out", str(out), "--spacing", *spacing, "None"])
    assert caught.value.code == 0
    return out


def test_a_store_is_compared_on_its_own_grid(store, tmp_path, capsys):
    arguments = ["--methods", "supervised", "--seeds", 1, "--steps", 2, "--out", tmp_path / "out", *SMALL]
    code, _, err = run(capsys, store, *arguments)
    assert code == 0, err
    assert "Scored are 2 test cases of the store, on its own grid." in err
    scores = Scores.read_csv(tmp_path / "out/supervised-seed0/scores.csv")
    assert set(scores.by_case("dsc")) == {"phantom_007", "phantom_008"}
    predicted = nifti.read(tmp_path / "out/supervised-seed0/predictions/phantom_007.nii.gz")
    truth = nifti.read(tmp_path / "out/exam/labels/phantom_007.nii.gz")
    assert predicted.geometry == truth.geometry
    assert 15 <= predicted.array.shape[0] <= 17
    rows = {row.case: row for row in read_qualities(tmp_path / "out/supervised-seed0/predictions") if row.whole}
    voxel = np.prod(predicted.geometry.spacing) / 1000
    assert set(rows) == {"phantom_007", "phantom_008"}
    assert rows["phantom_007"].millilitres == pytest.approx(np.count_nonzero(predicted.array) * voxel, rel=1e-4)
    np.testing.assert_array_equal(truth.array, Store.open(store).label("phantom_007"))
    assert (tmp_path / "out/report.html").exists()
    code, _, err = run(capsys, store, *arguments)
    assert code == 0, err
    assert "1 of 1 runs are finished already" in err


def test_what_is_scored_of_a_store(store, tmp_path):
    split = Split(labelled=("phantom_000",), unlabelled=("phantom_003",), val=("phantom_001",), test=("phantom_002",))
    exam = find_store_exam(store, split, tmp_path)
    assert (exam.cases, exam.kind) == (("phantom_002",), "test cases of the split, on its own grid")
    assert find_store_exam(store, replace(split, test=()), tmp_path).cases == ("phantom_007", "phantom_008")
    used = replace(split, test=(), unlabelled=("phantom_007", "phantom_008"))
    exam = find_store_exam(store, used, tmp_path)
    assert exam.cases == ("phantom_001",)
    assert exam.kind.startswith("validation cases of the split, as it lists no test cases")
    with pytest.raises(InputError, match=r"nothing to compare on. Draw a split .*coranet split .* --test 10"):
        find_store_exam(store, replace(used, val=()), tmp_path)
    with pytest.raises(InputError, match="does not hold phantom_004 with a label"):
        find_store_exam(store, replace(split, test=("phantom_004",)), tmp_path)


def test_cases_of_a_store_are_predicted_as_their_scans_are(scans, cache, finished, tmp_path):
    """Where nothing is resampled, the store's grid is the scan's, turned."""
    trained = coranet.load(finished, "cpu")
    store = next(s for s in map(Store.open, cache.glob("*")) if s.fingerprint == trained.run.data.fingerprint)
    trained.predict_store(store, ["phantom_000"], tmp_path, masks=True)
    whole = trained.predict(scans / "imagesTr/phantom_000_0000.nii.gz")
    np.testing.assert_array_equal(nifti.read(tmp_path / "phantom_000.nii.gz").array, whole.label)
    np.testing.assert_array_equal(nifti.read(tmp_path / "phantom_000_radical.nii.gz").array, whole.masks["radical"])
    with pytest.raises(InputError, match="is not the store that the run was trained on"):
        trained.predict_store(replace(store, index={**store.index, "channels": ["other"]}), ["phantom_000"], tmp_path)
