"""How long a run takes: what each kind of work costs, what is left, and steps to fit a person's time.

The trainer asks it before the first step and while it trains.
"""

from coranet.engine.timing.forecast import Forecast, Prices

__all__ = ["Forecast", "Prices"]
