"""Reports for people: the interactive page, and short words for decisions."""

from cupel.page._notebook import notebook_html
from cupel.page._page import render_page, write_page
from cupel.page._payload import page_payload
from cupel.page._save import save_page
from cupel.page._variant import Variant
from cupel.page._words import excluded_words, included_words, reason_name, summary

__all__ = [
    "Variant",
    "excluded_words",
    "included_words",
    "notebook_html",
    "page_payload",
    "reason_name",
    "render_page",
    "save_page",
    "summary",
    "write_page",
]
