"""Finished runs side by side: a page to mail, its pictures, and a table for the console. Reads files only."""

from coranet.report.numbers import table_text
from coranet.report.page import write_report

__all__ = ["table_text", "write_report"]
