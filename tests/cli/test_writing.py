"""`-o` leaves what a path leads to what it is."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from cupel.cli._output import write_whole

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links, pipes and modes of POSIX")


def test_the_file_behind_a_link_is_replaced_not_the_link(tmp_path):
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "file", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_whole(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert [path.name for path in (tmp_path / "real").iterdir()] == ["file"]


def test_a_link_to_nothing_yet_leads_to_the_new_file(tmp_path):
    (tmp_path / "link").symlink_to("file")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new"


def test_the_mode_is_kept(tmp_path):
    (tmp_path / "file").touch(0o600)
    write_whole(tmp_path / "file", "new")
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600


def test_a_pipe_is_written_to(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", str(tmp_path / "pipe")], stdout=subprocess.PIPE, text=True)
    write_whole(tmp_path / "pipe", "new")
    assert reader.communicate(timeout=10)[0] == "new"
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_devices_are_written_to(tmp_path):
    write_whole(Path("/dev/null"), "new")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    script = (
        "from pathlib import Path; from cupel.cli._output import write_whole; write_whole(Path('/dev/stdout'), 'new')"
    )
    (tmp_path / "log").write_text("before ")
    with (tmp_path / "log").open("a") as log:
        subprocess.run([sys.executable, "-c", script], check=True, stdout=log)
    assert (tmp_path / "log").read_text() == "before new"


def test_a_place_that_cannot_be_written_is_named_as_it_was_given(tmp_path):
    path = tmp_path / "missing" / "file"
    with pytest.raises(FileNotFoundError, match="missing/file") as caught:
        write_whole(path, "new")
    assert caught.value.filename == str(path)
