"""The command `kvc` of the wheel: finds LibTorch, downloads it where there is none, and becomes the program."""
import fcntl
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys

PREFIX = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(PREFIX, "bin", "kvc")


class SetupError(Exception):
    pass


def _wheels():
    """What the program links, as pip names it: torch==VERSION first."""
    with open(os.path.join(PREFIX, "libtorch.txt")) as file:
        return file.read().split()


def _holds_libtorch(folder):
    return all(os.path.isfile(os.path.join(folder, "lib", name)) for name in ("libtorch_cpu.so", "libgomp.so.1"))


def _given():
    """The environment's KVC_TORCH: a virtual environment or a torch package folder."""
    given = os.environ.get("KVC_TORCH")
    if not given:
        return None
    python = "python%d.%d" % sys.version_info[:2]
    for folder in (given, os.path.join(given, "lib", python, "site-packages", "torch")):
        if _holds_libtorch(folder):
            return folder
    raise SetupError(f"KVC_TORCH is '{given}', which holds no LibTorch: expected a virtual environment or a torch package "
                     f"folder of {_wheels()[0]}")


def _of_environment():
    """The torch that this Python would import, if it is the version that kvc is built for; it is not imported."""
    try:
        version = importlib.metadata.version("torch").split("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return None
    spec = importlib.util.find_spec("torch")
    folder = spec and spec.origin and os.path.dirname(spec.origin)
    return folder if folder and f"torch=={version}" == _wheels()[0] and _holds_libtorch(folder) else None


def _download(into):
    wheels = _wheels()
    print(f"kvc: downloading LibTorch ({wheels[0]}, 1.2 GB on disk) into {into}, once", file=sys.stderr, flush=True)
    part = into + ".part"
    shutil.rmtree(part, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
               "--no-compile", "--target", part, *wheels]
    if subprocess.run(command, stdout=sys.stderr).returncode != 0:
        shutil.rmtree(part, ignore_errors=True)
        raise SetupError(f"LibTorch could not be downloaded; install {wheels[0]} into this environment, or set KVC_TORCH to "
                         "one that has it")
    shutil.rmtree(into, ignore_errors=True)
    os.rename(part, into)


def _cached():
    """LibTorch in the user's cache; the first call downloads it, and others wait for that."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    into = os.path.join(cache, "kvc", _wheels()[0].replace("==", "-"))
    folder = os.path.join(into, "torch")
    if not _holds_libtorch(folder):
        os.makedirs(os.path.dirname(into), exist_ok=True)
        with open(into + ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _holds_libtorch(folder):
                _download(into)
    return folder


def find_libtorch():
    """The torch package folder whose libraries the program uses."""
    return _given() or _of_environment() or _cached()


def environment():
    """The variables that the program runs with."""
    torch = find_libtorch()
    variables = dict(os.environ, KVC_TORCH=torch)
    paths = [os.path.join(torch, "lib"), variables.get("LD_LIBRARY_PATH")]
    variables["LD_LIBRARY_PATH"] = os.pathsep.join(path for path in paths if path)
    scripts = os.path.dirname(sys.executable)
    jieba = importlib.util.find_spec("jieba")
    for name, file in (("KVC_PIP", os.path.join(scripts, "pip")),
                       ("KVC_DATASETTE", os.path.join(scripts, "datasette")),
                       ("KVC_JIEBA", os.path.dirname(jieba.origin) if jieba else "")):
        if file and os.path.exists(file):
            variables.setdefault(name, file)
    return variables


def main():
    try:
        variables = environment()
    except (OSError, SetupError) as error:
        print(f"kvc: {error}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130
    os.execve(PROGRAM, [PROGRAM, *sys.argv[1:]], variables)
