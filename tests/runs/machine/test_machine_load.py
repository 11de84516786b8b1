"""How many threads a run takes: as many as are asked for, else no more than there are free cores."""

import os

import pytest
import torch

from coranet.errors import InputError
from coranet.runs.launch import train
from coranet.runs.machine import machine_load
from coranet.runs.machine.machine_load import Load, measure_load, use_threads

CPU = torch.device("cpu")


@pytest.fixture
def threads(monkeypatch):
    """A machine of eight cores, whose load a test states; what was said comes back."""
    now = [8]
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(machine_load, "_chosen", {})
    monkeypatch.setattr(torch, "get_num_threads", lambda: now[0])
    monkeypatch.setattr(torch, "set_num_threads", lambda count: now.__setitem__(0, count))

    def take(asked=None, spare=8.0, granted=8.0, device=CPU):
        said = []
        monkeypatch.setattr(machine_load, "measure_load", lambda: Load(granted=granted, spare=spare))
        use_threads(asked, device, said.append)
        return now[0], said

    return take


def test_an_idle_machine_is_used_whole_and_nothing_is_said(threads):
    assert threads() == (8, [])
    assert threads(spare=7.6) == (8, [])


@pytest.mark.parametrize(("spare", "count"), [(5.2, 5), (1.0, 1), (0.0, 1)])
def test_a_busy_machine_gets_fewer_threads_and_a_sentence(threads, spare, count):
    taken, (sentence,) = threads(spare=spare)
    assert taken == count
    assert sentence.startswith(f"Other processes hold {8 - spare:.1f} of 8 cores: computing in {count} of 8 threads")
    assert "--threads" in sentence


def test_the_limit_of_a_container_counts(threads):
    taken, (sentence,) = threads(spare=2.0, granted=2.0)
    assert taken == 2
    assert sentence.startswith("2 cores: computing in 2 of 8 threads")


def test_the_next_run_takes_all_again_once_the_machine_is_free(threads):
    assert threads(spare=1.0)[0] == 1
    assert threads()[0] == 8


def test_what_a_person_says_wins(threads, monkeypatch):
    assert threads(asked=3, spare=1.0) == (3, [])
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert threads(spare=1.0) == (3, [])
    assert threads(spare=1.0, device=torch.device("meta")) == (3, [])


@pytest.mark.parametrize("count", [0, -1])
def test_at_least_one_thread(threads, count):
    with pytest.raises(InputError, match=f"--threads {count}: at least one"):
        threads(asked=count)


def write(root, stat="", cgroup="", **files):
    (root / "proc/self").mkdir(parents=True, exist_ok=True)
    (root / "proc/stat").write_text(stat)
    (root / "proc/self/cgroup").write_text(cgroup)
    for name, text in files.items():
        file = root / "sys/fs/cgroup" / name.replace("__", "/").replace("_DOT_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def counters(busy):
    """Of four cores, of which we may use the first two, after so many ticks of work on each."""
    return "cpu 0 0 0 0\n" + "".join(f"cpu{core} {busy} 0 0 500 9 0 0 0 0 0\n" for core in range(4))


@pytest.fixture
def two_cores(monkeypatch):
    """Two cores are ours; a second goes by between two looks."""
    clock = iter(range(100))
    monkeypatch.setattr(machine_load, "_own_cores", lambda: {0, 1})
    monkeypatch.setattr(machine_load.time, "monotonic", lambda: float(next(clock)))


def passing(monkeypatch, *changes):
    """What happens during each pause."""
    happening = iter(changes)
    monkeypatch.setattr(machine_load.time, "sleep", lambda seconds: next(happening)())


def test_work_of_others_on_our_cores_is_counted(tmp_path, monkeypatch, two_cores):
    tick = os.sysconf("SC_CLK_TCK")
    root = write(tmp_path, counters(100))
    passing(
        monkeypatch,
        lambda: write(root, counters(100 + tick // 2)),
        lambda: write(root, counters(100 + tick)),
    )
    load = measure_load(root)
    assert load.granted == 2
    assert load.spare == pytest.approx(1.0, abs=0.1)


def test_a_short_errand_of_another_process_does_not_count(tmp_path, monkeypatch, two_cores):
    tick = os.sysconf("SC_CLK_TCK")
    root = write(tmp_path, counters(100))
    passing(monkeypatch, lambda: write(root, counters(100 + tick)), lambda: None)
    assert measure_load(root).spare == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize(
    ("cgroup", "files"),
    [
        ("0::/a/b\n", {"a__b__cpu_DOT_max": "max 100000\n", "a__cpu_DOT_max": "150000 100000\n"}),
        (
            "4:memory:/x\n3:cpu,cpuacct:/a\n",
            {"cpu__cpu_DOT_cfs_quota_us": "150000\n", "cpu__cpu_DOT_cfs_period_us": "100000\n"},
        ),
    ],
)
def test_limits_of_both_kinds_of_control_groups(tmp_path, monkeypatch, two_cores, cgroup, files):
    root = write(tmp_path, counters(100), cgroup, **files)
    passing(monkeypatch, lambda: None, lambda: None)
    load = measure_load(root)
    assert (load.granted, load.spare) == (1.5, pytest.approx(1.5, abs=0.1))


def test_others_in_our_container_use_its_limit_up(tmp_path, monkeypatch, two_cores):
    root = write(tmp_path, counters(100), "0::/\n", cpu_DOT_max="150000 100000", cpu_DOT_stat="usage_usec 0\n")
    busy = [
        lambda used=used: write(root, counters(100), "0::/\n", cpu_DOT_stat=f"usage_usec {used}\n")
        for used in (10**6, 2 * 10**6)
    ]
    passing(monkeypatch, *busy)
    assert measure_load(root).spare == pytest.approx(0.5, abs=0.1)


def test_a_system_that_says_nothing_is_judged_by_its_last_minute(tmp_path, monkeypatch, two_cores):
    monkeypatch.setattr(os, "getloadavg", lambda: (1.2, 9.0, 9.0))
    passing(monkeypatch, lambda: None, lambda: None)
    assert measure_load(tmp_path).spare == pytest.approx(0.8)


def test_this_machine_can_be_measured():
    load = measure_load()
    assert 0 <= load.spare <= load.granted <= os.cpu_count()


def test_a_run_records_its_threads_and_goes_on_with_others(scans, small, tmp_path):
    before = torch.get_num_threads()
    try:
        out = train(scans, tmp_path / "run", small(steps=2, method="supervised", threads=2))
        assert '"threads": 2' in (out / "run.json").read_text()
        train(scans, out, small(steps=2, method="supervised", threads=1), resume=True)
    finally:
        torch.set_num_threads(before)
