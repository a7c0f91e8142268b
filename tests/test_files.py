"""Files that appear whole or not at all."""

import stat
import sys

import pytest

from cupel._internal.files import whole

posix = pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")


def test_a_block_that_fails_leaves_what_was_there_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError), whole(path) as draft:
        draft.write_text("new \ud800", encoding="utf-8")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@posix
@pytest.mark.parametrize("mode", [0o600, 0o400, 0o755])
def test_a_draft_is_open_to_nobody_whom_the_file_is_closed_to(tmp_path, mode):
    path = tmp_path / "file"
    path.touch()
    path.chmod(mode)
    with whole(path) as draft:
        assert stat.S_IMODE(draft.stat().st_mode) == mode | stat.S_IWUSR
        draft.write_text("new")
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert path.read_text() == "new"


def test_a_name_as_long_as_names_may_be_is_written_to(tmp_path):
    path = tmp_path / ("x" * 255)
    with whole(path) as draft:
        draft.write_text("new")
    assert path.read_text() == "new"
