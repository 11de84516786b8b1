"""The time that is left counts every kind of work, by the estimate first and then by what it took."""

import pytest

from coranet.engine.timeline import Stretch
from coranet.engine.timing.forecast import Forecast, Prices
from coranet.types import Phase

PRETRAIN = Stretch(Phase(name="pretrain", epochs=1), 0, 40, None)
SELFTRAIN = Stretch(Phase(name="selftrain", epochs=3, refresh_every=1), 40, 160, 30)
PRICES = Prices(steps={"pretrain": 1.0, "selftrain": 2.0}, relabel=30.0, score=5.0, look=1.0)
REST = 120 * 2 + 4 * 30  # self-training and its four relabellings


class FakeClock:
    """Stands still until it is moved."""

    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def forecast(clock):
    return Forecast((PRETRAIN, SELFTRAIN), PRICES, checks=4, clock=clock)


def take(forecast, clock, seconds, kind):
    with forecast.timing(kind):
        clock.now += seconds


def test_the_time_left_counts_self_training_and_relabelling(forecast, clock):
    assert forecast.left(0) == 40 + REST + 4 * 6
    clock.now += 32
    forecast.count_steps("pretrain", 32)
    assert forecast.left(32) == 8 + REST + 4 * 6  # and not 128 steps of one second
    assert forecast.left(40) == REST + 3 * 6
    assert forecast.left(41) == 119 * 2 + 3 * 30 + 3 * 6
    assert forecast.left(160) == 0


def test_other_work_is_no_part_of_the_steps_around_it(forecast, clock):
    clock.now += 10
    forecast.count_steps("pretrain", 10)
    clock.now += 5
    take(forecast, clock, 30, "relabel")
    clock.now += 5
    forecast.count_steps("selftrain", 5)
    take(forecast, clock, 7, "score")
    clock.now += 4
    forecast.count_steps("selftrain", 2)
    assert forecast.measured["steps of selftrain"] == [2, 2]
    assert forecast.measured["relabel"] == [30]
    assert forecast.seconds_of("score", 0) == 4 * 7


def test_what_was_not_done_yet_is_as_slow_as_the_rest(forecast, clock):
    """A machine that is busy with something else."""
    clock.now += 30
    forecast.count_steps("pretrain", 10)
    assert forecast.left(10) == 3 * (30 + REST + 4 * 6)
    take(forecast, clock, 60, "relabel")
    assert forecast.seconds_of("relabel", 41) == 3 * 60


def test_a_slow_first_time_and_old_times_are_forgotten(forecast, clock):
    for seconds in (100, 10, 10):
        clock.now += seconds
        forecast.count_steps("pretrain", 10)
    assert forecast.seconds_of("steps of pretrain", 30) == 10
    for _ in range(10):
        clock.now += 20
        forecast.count_steps("pretrain", 10)
    assert forecast.seconds_of("steps of pretrain", 30) == 20


def test_a_run_without_relabelling_has_none_to_wait_for(clock):
    forecast = Forecast((PRETRAIN,), Prices(steps={"pretrain": 1.0}, relabel=30.0), checks=1, clock=clock)
    assert forecast.left(0) == 40
    assert forecast.seconds_of("relabel", 0) == 0
