"""The report of a fit: one page for readers who never heard of the method."""

from fedsparse.report.fit.fit_report import fit_page, save_fit

__all__ = ["fit_page", "save_fit"]
