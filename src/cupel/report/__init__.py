"""Reports for people: the interactive page, tables and short words for decisions."""

from cupel.report._draw import plain, print_table
from cupel.report._notebook import notebook_html
from cupel.report._page import render_page, write_page
from cupel.report._payload import CONTENT_LIMIT, page_payload
from cupel.report._save import save_page
from cupel.report._table import Cell, Column, Table
from cupel.report._text import percent, plural, preview, visible
from cupel.report._variant import Variant
from cupel.report._words import excluded_words, included_words, reason_name, summary

__all__ = [
    "CONTENT_LIMIT",
    "Cell",
    "Column",
    "Table",
    "Variant",
    "excluded_words",
    "included_words",
    "notebook_html",
    "page_payload",
    "percent",
    "plain",
    "plural",
    "preview",
    "print_table",
    "reason_name",
    "render_page",
    "save_page",
    "summary",
    "visible",
    "write_page",
]
