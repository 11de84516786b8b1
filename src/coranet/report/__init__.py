"""Finished runs side by side: a page to mail, its pictures, and a table for the console. Reads files only."""

from coranet.report.evidence import show_evidence, write_evidence
from coranet.report.figures import judge_sources
from coranet.report.numbers import table_text
from coranet.report.page import write_report
from coranet.report.seeds import Standing, seeds_text, standings, write_comparison

__all__ = [
    "Standing",
    "judge_sources",
    "seeds_text",
    "show_evidence",
    "standings",
    "table_text",
    "write_comparison",
    "write_evidence",
    "write_report",
]
