"""The report of a fit: one page for readers who never heard of the method."""

from fedsparse.report.fit.fit_report import REPORT, fit_page, save_fit

__all__ = ["REPORT", "fit_page", "save_fit"]
