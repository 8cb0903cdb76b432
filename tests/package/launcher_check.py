#!/usr/bin/env python3
"""How the wheel's command finds LibTorch: launcher_check.py PROGRAM. The program, torch and pip are stand-ins.

A folder given by KVC_TORCH is used, or refused in one line; the environment's torch counts if it has kvc's version; else
LibTorch is downloaded into the user's cache, once, whichever of two processes comes first; a failed download leaves
nothing there.
"""
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = '#!/bin/sh\necho "torch=$KVC_TORCH path=$LD_LIBRARY_PATH asked=$*"\n'
# In place of pip's: installs a torch folder where --target says, and notes that it did.
PIP = """import os, sys
target = sys.argv[sys.argv.index("--target") + 1]
open(os.environ["NOTES"], "a").write("download\\n")
if os.environ.get("OFFLINE"):
    os.makedirs(target)
    sys.exit("no network")
os.makedirs(os.path.join(target, "torch", "lib"))
for name in ("libtorch_cpu.so", "libgomp.so.1"):
    open(os.path.join(target, "torch", "lib", name), "w").close()
"""
failures = []


def expect(what, found, wanted):
    if wanted not in found:
        failures.append(f"{what}: '{wanted}' is not in '{found}'")


def write(path, text="", mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, mode)


def torch_folder(folder, version):
    for name in ("__init__.py", "lib/libtorch_cpu.so", "lib/libgomp.so.1"):
        write(os.path.join(folder, "torch", name))
    write(os.path.join(folder, f"torch-{version}.dist-info", "METADATA"), f"Name: torch\nVersion: {version}\n")
    return os.path.join(folder, "torch")


class Environment:
    """An environment of Python that holds the wheel's command."""

    def __init__(self, folder):
        self.site = os.path.join(folder, "site")
        self.cache = os.path.join(folder, "cache")
        self.notes = os.path.join(folder, "notes")
        shutil.copytree(os.path.join(ROOT, "python", "kvc_program"), os.path.join(self.site, "kvc_program"))
        write(os.path.join(self.site, "kvc_program", "bin", "kvc"), PROGRAM, 0o755)
        write(os.path.join(self.site, "kvc_program", "libtorch.txt"), "torch==2.11.0\nsome-runtime==13.0.*\n")
        write(os.path.join(self.site, "pip", "__init__.py"))
        write(os.path.join(self.site, "pip", "__main__.py"), PIP)
        write(self.notes)

    def start(self, *arguments, **variables):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KVC_")}
        environment.update({"PYTHONPATH": self.site, "XDG_CACHE_HOME": self.cache, "NOTES": self.notes}, **variables)
        environment.pop("LD_LIBRARY_PATH", None)
        code = "import sys, kvc_program; sys.exit(kvc_program.main())"
        return subprocess.Popen([sys.executable, "-S", "-c", code, *arguments], env=environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def run(self, *arguments, **variables):
        child = self.start(*arguments, **variables)
        out, err = child.communicate()
        return child.returncode, out, err

    def downloads(self):
        with open(self.notes) as file:
            return file.read().count("download")


def check_given(folder):
    here = Environment(folder)
    given = torch_folder(os.path.join(folder, "other"), "2.11.0")
    code, out, _ = here.run("run", "x.yaml", KVC_TORCH=given)
    expect("given", out, f"torch={given} path={given}/lib asked=run x.yaml")
    code, out, err = here.run(KVC_TORCH="/nowhere")
    if code != 3 or out or err.count("\n") != 1:
        failures.append(f"a bad KVC_TORCH: exit code {code}, '{out}', '{err}'")
    expect("a bad KVC_TORCH", err, "kvc: KVC_TORCH is '/nowhere', which holds no LibTorch")


def check_environment(folder):
    here = Environment(folder)
    own = torch_folder(here.site, "2.11.0+cpu")
    expect("the environment's torch", here.run()[1], f"torch={own} ")
    if here.downloads():
        failures.append("the environment has torch, and another is downloaded")
    shutil.rmtree(os.path.join(here.site, "torch-2.11.0+cpu.dist-info"))
    torch_folder(here.site, "2.12.0")
    expect("another version", here.run()[1], f"torch={here.cache}/kvc/torch-2.11.0/torch ")


def check_download(folder):
    here = Environment(folder)
    code, _, err = here.run(OFFLINE="1")
    if code != 3 or os.listdir(os.path.join(here.cache, "kvc")) != ["torch-2.11.0.lock"]:
        failures.append(f"a failed download: exit code {code}, left {os.listdir(os.path.join(here.cache, 'kvc'))}")
    expect("a failed download", err, "kvc: LibTorch could not be downloaded; install torch==2.11.0 into this environment")
    children = [here.start() for _ in range(3)]
    for child in children:
        out, err = child.communicate()
        expect("one of three", out + err, f"torch={here.cache}/kvc/torch-2.11.0/torch ")
    if here.downloads() != 2:  # the failed one and one other
        failures.append(f"three processes at once: {here.downloads() - 1} downloads")


def main():
    for check in (check_given, check_environment, check_download):
        with tempfile.TemporaryDirectory(prefix="kvc-launcher-") as folder:
            check(folder)
    for line in failures:
        print(line)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
