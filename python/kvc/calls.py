"""The program kvc as a child process: its output, its progress, its refusals."""
import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading


_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")  # of a terminal


class KvcError(RuntimeError):
    """What the program refused, in its own line."""


def program():
    """The program: KVC names it, or it is the checkout's that this package is part of, the wheel's, or that of PATH."""
    own = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "kvc")
    of_wheel = os.path.join(os.path.dirname(sys.executable), "kvc")
    for file in (os.environ.get("KVC"), own, of_wheel, shutil.which("kvc")):
        if file and os.path.isfile(file):
            return file
    raise KvcError("no program kvc: set KVC to it, or put it into PATH")


def settings_options(settings):
    """{"path": value} -> the options that put it over a file."""
    options = []
    for path, value in (settings or {}).items():
        options += ["--set", f"{path}={value if isinstance(value, str) else json.dumps(value)}"]
    return options


def _shows_bars():
    """Whether what is written to standard error is seen at once: a terminal, or a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def _open_stderr():
    """(to read from, for the child): a terminal where bars are seen, so that the program draws them."""
    if not _shows_bars():
        return os.pipe()
    ours, childs = pty.openpty()
    columns = shutil.get_terminal_size((100, 24)).columns
    fcntl.ioctl(childs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    return ours, childs


def _forward(source, said, shown):
    while True:
        try:
            chunk = os.read(source, 65536)
        except OSError:  # how a terminal ends
            chunk = b""
        if not chunk:
            break
        said.append(chunk)
        if shown:
            sys.stderr.write(chunk.decode(errors="replace").replace("\r\n", "\n"))
            sys.stderr.flush()
    os.close(source)


def call(*arguments, ok=(0,), progress=False):
    """-> (standard output, standard error). progress: what it says of its progress is shown as it comes.

    Ctrl-C ends the program as it would in a terminal: what is finished is stored, and the same call resumes.
    """
    ours, childs = _open_stderr() if progress else os.pipe()
    said = []
    child = subprocess.Popen([program(), *arguments], stdout=subprocess.PIPE, stderr=childs, stdin=subprocess.DEVNULL,
                             start_new_session=True)
    os.close(childs)
    reader = threading.Thread(target=_forward, args=(ours, said, progress), daemon=True)
    reader.start()
    try:
        printed = child.stdout.read().decode()
        child.wait()
    except KeyboardInterrupt:
        child.send_signal(signal.SIGINT)
        child.communicate()
        raise
    reader.join()
    text = _CONTROLS.sub("", b"".join(said).decode(errors="replace")).replace("\r", "\n")
    if child.returncode not in ok:
        lines = [line for line in text.splitlines() if line.strip()]
        told = [line for line in lines if line.startswith("kvc: ") and not line.startswith("kvc: note: ")] or lines
        raise KvcError(told[-1] if told else f"kvc {arguments[0]} ended with exit code {child.returncode}")
    return printed, text
