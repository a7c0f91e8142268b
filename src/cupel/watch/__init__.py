"""A local proxy that shows the requests of any agent, and keeps them under a budget if asked to.

Needs `cupel-context[watch]`; the command is `cupel watch`.
"""

from cupel.watch._launch import WatchOptions, run_watch
from cupel.watch._serving import page_app, serve_page

__all__ = ["WatchOptions", "page_app", "run_watch", "serve_page"]
