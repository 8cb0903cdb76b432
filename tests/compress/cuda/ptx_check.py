"""The PTX that nvcc makes of device.cuh's inline assembly: opcode, types and the order of operands, which emulation cannot
see. Skipped (77) without nvcc.

Each wrapper is called by a kernel of its own; in the instruction that results, a register is written as what it was loaded
from ("f[1]", "u[4]", "n"), or where nothing was, as where it is stored ("->u[0]"). What is expected is written by hand, from
the PTX manual (9.0), for the meaning that the comments in device.cuh give.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
PARAMETERS = ("f", "s", "u", "p", "i", "n")
KERNEL = """extern "C" __global__ void {name}(float* f, int* s, unsigned* u, const unsigned char* p, int i, int n) {{
  {body}
}}
"""
PRODUCT = """{type} sum[4] = {{{x}[0], {x}[1], {x}[2], {x}[3]}};
  const unsigned a[4] = {{u[0], u[1], u[2], u[3]}}, b[2] = {{u[4], u[5]}};
  {wrapper}(sum, a, b);
  for (int k = 0; k < 4; ++k) {x}[k] = sum[k];"""
LOAD = """__shared__ uint4 rows[32];
  unsigned to[{count}];
  {wrapper}<{count}>(to, rows + i);
  for (int k = 0; k < {count}; ++k) u[k] = to[k];"""
COPY = """__shared__ uint4 rows[32];
  cp_async<{bytes}>(reinterpret_cast<unsigned char*>(rows + i), p, n);"""
F, S = "{f[0],f[1],f[2],f[3]}", "{s[0],s[1],s[2],s[3]}"
FACTORS = "{u[0],u[1],u[2],u[3]}, {u[4],u[5]}"


def product(wrapper, of, x="f", kind="float"):
    return wrapper, PRODUCT.format(wrapper=wrapper, x=x, type=kind), f"mma.sync.aligned.{of} {F if x == 'f' else S}, {FACTORS}, {F if x == 'f' else S};"


def load(count, transposed):
    wrapper, trans = ("ldmatrix_trans", ".trans") if transposed else ("ldmatrix", "")
    to = ",".join(f"->u[{k}]" for k in range(count))
    return f"{wrapper}_{count}", LOAD.format(wrapper=wrapper, count=count), f"ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{to}}}, [rows+16*i];"


# Name, what its kernel does, the instructions.
CASES = [
    product("mma_f16", "m16n8k16.row.col.f32.f16.f16.f32"),
    product("mma_bf16", "m16n8k16.row.col.f32.bf16.bf16.f32"),
    product("mma_s8", "m16n8k32.row.col.s32.s8.s8.s32", "s", "int"),
    *(load(count, transposed) for count in (1, 2, 4) for transposed in (False, True)),
    ("movmatrix_trans", "u[1] = movmatrix_trans(u[0]);", "movmatrix.sync.aligned.m8n8.trans.b16 ->u[1], u[0];"),
    ("cp_async_4", COPY.format(bytes=4), "cp.async.ca.shared.global [rows+16*i], [p], 4, n;"),
    ("cp_async_8", COPY.format(bytes=8), "cp.async.ca.shared.global [rows+16*i], [p], 8, n;"),
    ("cp_async_16", COPY.format(bytes=16), "cp.async.cg.shared.global [rows+16*i], [p], 16, n;"),
    ("cp_async_commit", "cp_async_commit();", "cp.async.commit_group;"),
    ("cp_async_wait", "cp_async_wait<3>();", "cp.async.wait_group 3;"),
    ("lop3", "u[3] = lop3<0xE4>(u[0], u[1], u[2]);", "lop3.b32 ->u[3], u[0], u[1], u[2], 228;"),
    ("prmt", "u[3] = prmt(u[0], u[1], u[2]);", "prmt.b32 ->u[3], u[0], u[1], u[2];"),
    ("exp2_approx", "f[1] = exp2_approx(f[0]);", "ex2.approx.ftz.f32 ->f[1], f[0];"),
    ("named_barrier", "named_barrier(i, n);", "bar.sync i, n;"),
]


NVCC = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"


def compiled(folder):
    source = os.path.join(folder, "wrappers.cu")
    with open(source, "w") as file:
        file.write('#include "cuda/device.cuh"\nusing namespace kvc::cuda;\n')
        file.writelines(KERNEL.format(name="kernel_of_" + name, body=body) for name, body, _ in CASES)
    made = os.path.join(folder, "wrappers.ptx")
    done = subprocess.run([NVCC, "-std=c++20", "-O3", "-ptx", "-arch=sm_90", "-I", os.path.join(ROOT, "harness", "compress"), source, "-o", made],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with open(made) as file:
        return file.read()


def place(address, meaning):
    """[%rd1+4] -> f[1]"""
    base, _, offset = address.strip("[]").partition("+")
    return f"{meaning.get(base, base)}[{int(offset or 0) // 4}]"


def instructions_of(body):
    """The inline assembly of a kernel's PTX, with registers as what they mean"""
    meaning, assembly, inline = {}, [], False
    for line in (line.strip() for line in body.splitlines()):
        if line.startswith("//"):
            inline = "begin inline asm" in line or (inline and "end inline asm" not in line)
        elif inline:
            assembly.append(re.sub(r"\s+", " ", line))
        elif line.startswith("st.global"):
            address, register = re.match(r"\S+\s+(\[[^\]]+\]), (\S+);", line).groups()
            meaning.setdefault(register, "->" + place(address, meaning))
        else:
            keep_meaning(line, meaning)
    text = " ".join(assembly)
    return re.sub(r"%[a-z]+\d+", lambda register: meaning.get(register[0], register[0]), text)


def keep_meaning(line, meaning):
    loaded = re.match(r"ld\.param\S*\s+(%\w+), \[\w+_param_(\d+)\];", line)
    global_load = re.match(r"ld\.global\S*\s+(%\w+), (\[[^\]]+\]);", line)
    copied = re.match(r"(?:cvta\S*|mov\S*)\s+(%\w+), (\S+);", line)
    shifted = re.match(r"(?:shl\.b32|mul\S+)\s+(%\w+), (%\w+), (\d+);", line)
    added = re.match(r"add\.s\d+\s+(%\w+), (%\w+), (%\w+);", line)
    if loaded:
        meaning[loaded[1]] = PARAMETERS[int(loaded[2])]
    elif global_load:
        meaning[global_load[1]] = place(global_load[2], meaning)
    elif copied:
        meaning[copied[1]] = "rows" if copied[2].endswith("rows") else meaning.get(copied[2], copied[2])
    elif shifted:
        factor = 2 ** int(shifted[3]) if line.startswith("shl") else int(shifted[3])
        meaning[shifted[1]] = f"{factor}*{meaning.get(shifted[2], shifted[2])}"
    elif added:
        meaning[added[1]] = "+".join(sorted((meaning.get(each, each) for each in added.groups()[1:]), reverse=True))


def main():
    if not os.path.exists(NVCC):
        print("skipped: there is no nvcc")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        ptx = compiled(folder)
    bodies = dict(re.findall(r"\.entry kernel_of_(\w+)\(.*?\)\s*\{(.*?)\n\}", ptx, re.S))
    wrong = []
    for name, _, expected in CASES:
        found = instructions_of(bodies[name])
        if found != expected:
            wrong.append(f"device.cuh, {name}: is      {found}\n{'expected':>{len(name) + 20}} {expected}")
    with open(os.path.join(ROOT, "harness", "compress", "cuda", "device.cuh")) as file:
        wrappers = set(re.findall(r"__forceinline__ \w+ (\w+)\((?:(?!__device__).)*?asm", file.read(), re.S))
    wrong += [f"device.cuh, {name}: has inline assembly and no case here" for name in sorted(wrappers)
              if not any(case.startswith(name) for case, _, _ in CASES)]
    assert not wrong, "\n".join(wrong)
    print(f"{len(CASES)} instructions of {len(wrappers)} functions are as expected")


if __name__ == "__main__":
    main()
