"""Reports for people: the interactive page, and short words for decisions."""

from cupel.page._live import LivePage
from cupel.page._page import (
    excluded_words,
    included_words,
    notebook_html,
    reason_name,
    render_page,
    save_page,
    summary,
    write_page,
)
from cupel.page._payload import Variant, page_payload
from cupel.page._texts import ConversationTexts

__all__ = [
    "ConversationTexts",
    "LivePage",
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
