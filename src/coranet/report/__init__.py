"""Finished runs side by side: a page to mail, its pictures, and a table for the console.

Reads the files that runs left behind, and loads neither PyTorch nor a method.
"""

from coranet.report.numbers import table_text
from coranet.report.page import write_report
from coranet.report.seeds import Standing, seeds_text, standings, write_comparison

__all__ = ["Standing", "seeds_text", "standings", "table_text", "write_comparison", "write_report"]
