"""The tests; modules that several of them share are imported as `tests.name`."""
