"""How much Hypothesis tries: `pytest --hypothesis-profile=fuzz` searches longer, and differently each time."""

import gc
import signal

from hypothesis import HealthCheck, settings

collect_ignore = ["typing"]  # type-checked, never run

settings.register_profile(
    "ci", deadline=None, derandomize=True, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("fuzz", settings.get_profile("ci"), derandomize=False, max_examples=20_000, print_blob=True)
settings.register_profile("mutants", settings.get_profile("fuzz"), max_examples=20, database=None)
settings.load_profile("ci")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # So it is in a run that a shell has put into the background; the commands that tests interrupt would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish():
    """Keep the collector from searching thousands of collected tests, which all live to the end, again and again."""
    gc.collect()
    gc.freeze()
