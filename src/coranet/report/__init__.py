"""Any run and any comparison as a page to mail, its pictures, and a table for the console.

Reads the files that runs left behind. Loads neither PyTorch nor a method, and matplotlib only to draw.
"""

from coranet.report.page import write_report
from coranet.report.report_request import ReportRequest, report_on
from coranet.report.score_tables import table_text
from coranet.report.seeds import Standing, seeds_text, standings, write_comparison

__all__ = [
    "ReportRequest",
    "Standing",
    "report_on",
    "seeds_text",
    "standings",
    "table_text",
    "write_comparison",
    "write_report",
]
