#!/usr/bin/env python3
"""What ./kvc and cmake/Cuda.cmake make of a machine: setup_check.py PROGRAM. Compilers and CMake are stand-ins.

An nvcc that cannot compile the kernels is left out in one line, as is one without a GPU; KVC_CUDA reaches CMake, and
the folder is configured again when it is another; without it the folder stays as it was configured. Without a GPU the
set-up installs three wheels, which hold every library that the program and the plugins link.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

FAKE_NVCC = """#!/bin/sh
case " $* " in *" --version "*) echo "Cuda compilation tools, release {release}, V{release}.100"; exit 0 ;; esac
exec {nvcc} "$@"
"""
MINI = """cmake_minimum_required(VERSION 3.22)
project(mini LANGUAGES CXX)
set(KVC_CUDA AUTO CACHE STRING "")
list(APPEND CMAKE_MODULE_PATH {root}/cmake)
include(Cuda)
"""
# It notes its arguments, and the cache that it would write.
FAKE_CMAKE = """#!/bin/sh
echo "$*" >>"$NOTES"
for word; do
  case $word in
    -DKVC_CUDA=*) cuda=${word#-DKVC_CUDA=} ;;
  esac
  [ "$before" != -B ] || folder=$word
  before=$word
done
touch "$folder/build.ninja"
echo "KVC_CUDA:STRING=${cuda-AUTO}" >"$folder/CMakeCache.txt"
"""
FAKE_PROGRAM = """#!/bin/sh
exit 0
"""


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o755)


def configured(folder, release, cuda, sign=__file__):
    """What CMake says of a compiler of that release, and whether it ended well; a GPU is there where `sign` exists."""
    nvcc = os.path.join(folder, "nvcc")
    write(nvcc, FAKE_NVCC.format(release=release, nvcc=shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"))
    build = tempfile.mkdtemp(dir=folder)
    done = subprocess.run(["cmake", "-S", folder, "-B", build, f"-DKVC_CUDA={cuda}", f"-DKVC_GPU_SIGN={sign}"],
                          text=True, capture_output=True,
                          env={**os.environ, "CUDACXX": nvcc}, check=False)
    return " ".join((done.stdout + done.stderr).split()), done.returncode == 0


def check_nvcc(folder):
    write(os.path.join(folder, "CMakeLists.txt"), MINI.format(root=ROOT))
    for cuda in ("AUTO", "OFF", "ON"):
        said, is_well = configured(folder, "12.0", cuda)
        assert is_well == (cuda != "ON"), said
        assert ("is nvcc 12.0" in said) == (cuda != "OFF"), said
        assert "CUDA kernels: TRUE" not in said, said
    said, is_well = configured(folder, "11.8", "AUTO")
    assert is_well and "nvcc is nvcc 11.8, expected nvcc 12.1 or later" in said, said
    for release in ("12.1", "12.10", "13.0"):
        said, is_well = configured(folder, release, "AUTO")
        assert is_well and "CUDA kernels: TRUE" in said, said
    said, is_well = configured(folder, "13.0", "AUTO", "/nowhere")
    assert is_well and "left out: no NVIDIA GPU here" in said and "CUDA kernels: FALSE" in said, said
    said, is_well = configured(folder, "13.0", "ON", "/nowhere")
    assert is_well and "CUDA kernels: TRUE" in said, said
    said, is_well = configured(folder, "13.0", "YES")
    assert not is_well and "expected AUTO, ON or OFF" in said, said


def check_launcher(folder):
    tools, build, notes = (os.path.join(folder, name) for name in ("tools", "build", "notes"))
    os.mkdir(tools)
    os.makedirs(os.path.join(build, "bin"))
    os.mkdir(os.path.join(build, "jieba"))
    write(os.path.join(tools, "cmake"), FAKE_CMAKE)
    write(os.path.join(tools, "ninja"), FAKE_PROGRAM)
    write(os.path.join(tools, "dpkg-query"), "#!/bin/sh\necho install ok installed\n")
    write(os.path.join(build, "bin/kvc"), FAKE_PROGRAM)
    write(os.path.join(build, "jieba/dict.txt"), "")

    def launch(cuda=None):
        """The CMake command lines of ./kvc --version."""
        environment = {**os.environ, "KVC_BUILD": build, "KVC_TORCH": tools, "KVC_DATASETTE": tools, "NOTES": notes,
                       "PATH": tools + ":" + os.environ["PATH"]}
        environment.pop("KVC_CUDA", None)
        if cuda is not None:
            environment["KVC_CUDA"] = cuda
        write(notes, "")
        done = subprocess.run([os.path.join(ROOT, "kvc"), "--version"], text=True, capture_output=True, env=environment,
                              check=False)
        with open(notes, encoding="utf-8") as file:
            return done, file.read().splitlines()

    def asks(cuda, expected):
        done, lines = launch(cuda)
        assert done.returncode == 0, done.stderr
        found = [word for line in lines for word in line.split() if word.startswith("-DKVC_CUDA=")]
        assert found == expected, (cuda, found, expected)

    asks(None, ["-DKVC_CUDA=AUTO"])
    asks(None, [])
    asks("OFF", ["-DKVC_CUDA=OFF"])
    asks("OFF", [])
    asks(None, [])  # as it was
    asks("ON", ["-DKVC_CUDA=ON"])
    asks("AUTO", ["-DKVC_CUDA=AUTO"])
    done, lines = launch("no")
    assert done.returncode == 3 and done.stderr == "kvc: KVC_CUDA is 'no', expected AUTO, ON or OFF\n", done.stderr
    assert not lines, lines


def check_libraries(program):
    """What is linked is in the three wheels, in LibTorch's folder or the system's."""
    build = os.path.dirname(os.path.dirname(os.path.abspath(program)))
    files = [program, *glob.glob(os.path.join(build, "plugins", "*.so")), *glob.glob(os.path.join(build, "lib", "*.so"))]
    found, env = set(), dict(os.environ)
    for file in files:
        told = subprocess.run(["ldd", file], text=True, capture_output=True, check=True, env=env).stdout
        assert "not found" not in told, (file, told)
        if file == program:  # what it loads finds LibTorch loaded
            env["LD_LIBRARY_PATH"] = os.path.dirname(re.search(r"libtorch_cpu.so => (\S+)", told).group(1))
        found |= set(re.findall(r"=> (\S+/nvidia/\S+)", told))
    for path in found:
        site, _, name = os.path.realpath(path).partition("/site-packages/")
        records = [record for wheel in ("runtime", "cupti")
                   for record in glob.glob(f"{site}/site-packages/nvidia_cuda_{wheel}-13.0*.dist-info/RECORD")]
        assert any(name + "," in open(record, encoding="utf-8").read() for record in records), (path, records)
    assert len(files) > 30, files


def check_shell():
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", os.path.join(ROOT, "kvc")], check=True)


def main():
    check_shell()
    check_libraries(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        check_launcher(folder)
    if not shutil.which("nvcc"):
        print("no nvcc: its versions are not tried")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        check_nvcc(folder)


main()
