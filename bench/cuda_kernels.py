#!/usr/bin/env python3
"""What nvcc makes of the kernels, and the times that follow from it: nothing here runs on a GPU.

cuda_kernels.py --check [--architectures sm_80 sm_90] [--unless-unchanged]
                           the kernels compile for sm_80 and sm_90 within harness/compress/cuda/kernels.tsv, without spills or
                           local memory, and their inner loops are what their head comments say; exit 77: no toolkit.
                           Unless unchanged: not compiled where the file was made from these sources by this nvcc
cuda_kernels.py --write    writes harness/compress/cuda/kernels.tsv and the table of docs/cuda.md
cuda_kernels.py --predict DEVICE [--tokens N] [--batch N] [--kv-heads N] [--layers N]
                           least times of a step's attention on h100, a100, h200 or l40s: predictions, not measured

A time is the longer one of two bounds: bytes over the memory's bandwidth, and instructions over issue slots (four a
clock and multiprocessor). Instructions are those of the loop over coded tokens: on tensor cores all of them, counted as
issued each time; of a plain kernel the shortest turn of its loop.
"""
import argparse
import collections
import concurrent.futures
import glob
import hashlib
import heapq
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CUDA = os.path.join(ROOT, "harness", "compress", "cuda")
INCLUDE = os.path.join(ROOT, "harness", "include")
TABLE = os.path.join(CUDA, "kernels.tsv")
GPUS = os.path.join(CUDA, "gpus.tsv")
PAGE = os.path.join(ROOT, "docs", "cuda.md")
ARCHITECTURES = ["sm_80", "sm_90"]
COLUMNS = ["kernel", "architecture", "registers", "shared_bytes", "blocks", "instructions", "hmma", "tokens", "ffma"]
THREADS = 128
PLAIN_DIM = 128  # that the plain kernels' times are told for
CONVERSIONS = re.compile(r"I2F|F2F\b|I2FP|F2F\.")


def find_tool(name):
    """A program of the toolkit: on the path, or of the Python packages nvidia-cuda-*."""
    folders = [os.path.join(p, "nvidia", "cu13", "bin") for p in sys.path] + ["/usr/local/cuda/bin"]
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(folders))


def kernel_name(signature):
    """attend_codes<__half, Format<4, false>, Format<4, false>, 8, 128>(..) -> attend_codes f16 k4 v4 8 128;
    score_rows<4>(..) -> score_rows 4."""
    name, arguments = re.match(r"(?:void )?kvc::cuda::(\w+)(?:<(.*)>)?\(", signature).groups()
    if arguments is None or re.fullmatch(r"\d+(, \w+)?", arguments):
        return " ".join([name, *(arguments or "").replace(", true", " spread").replace(", false", "").split()])
    words = [name, "bf16" if "bfloat16" in arguments else "f16"]
    formats = re.findall(r"Format<(\d+), (\w+)>", arguments)
    words += [side + bits + ("c" if by_tokens == "true" else "") for side, (bits, by_tokens) in zip("kv", formats)]
    return " ".join(words + re.findall(r", (\d+)(?=,|$)", re.sub(r"<[^<>]*>", "", arguments)))


def demangle(names):
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    return dict(zip(names, text.splitlines()))


def compile_kernels(source, architecture, folder):
    """{mangled name: (registers, shared bytes, stack and spilled bytes)}, and the SASS of each."""
    cubin = os.path.join(folder, os.path.basename(source) + architecture)
    command = [find_tool("nvcc"), "-std=c++20", "-O3", "-I" + os.path.dirname(CUDA), "-I" + INCLUDE,
               "-arch=" + architecture, "-Xptxas", "-v", "-cubin", "-o", cubin, source]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"nvcc failed on {os.path.relpath(source, ROOT)} for {architecture}:\n{done.stderr}")
    used = {}
    for name, text in re.findall(r"Compiling entry function '(\w+)'(.*?Used [^\n]*)", done.stderr, re.S):
        lost = sum(int(n) for n in re.findall(r"(\d+) bytes (?:stack frame|spill stores|spill loads|cumulative)", text))
        shared = re.search(r"(\d+) bytes smem", text)
        used[name] = int(re.search(r"Used (\d+) registers", text)[1]), int(shared[1]) if shared else 0, lost
    sass = subprocess.run([find_tool("nvdisasm"), "-c", cubin], capture_output=True, text=True, check=True).stdout
    return used, {part.split(":")[0]: part for part in re.split(r"\n\.text\.", sass)[1:]}


def instructions(lines):
    found = (re.search(r"/\*[0-9a-f]{4,5}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]+)", line) for line in lines)
    return collections.Counter(x[1] for x in found if x and x[1] != "NOP")


def count(loop, prefix):
    return sum(n for name, n in loop.items() if name.startswith(prefix))


def loops(sass, prefix=""):
    """Lines, those of labels, and the first and last one of each loop with such an instruction that holds no other."""
    lines = sass.split("\n")
    labels = {line.split(":")[0]: i for i, line in enumerate(lines) if line.startswith(".L_x_")}
    jumps = ((i, re.search(r"BRA(?:\.\w+)* `\((\.L_x_\d+)\)", line)) for i, line in enumerate(lines))
    spans = [(labels[jump[1]], i) for i, jump in jumps if jump and labels.get(jump[1], i) < i]
    spans = [(a, b) for a, b in spans if count(instructions(lines[a:b + 1]), prefix)]
    return lines, labels, [x for x in spans if not any(y != x and x[0] <= y[0] and y[1] <= x[1] for y in spans)]


def coded_loop(sass):
    """The loop over whole tiles of coded tokens: of the innermost ones with tensor-core products that with the most of
    these, then with the fewest instructions. None for kernels without."""
    lines, _, found = loops(sass, "HMMA")
    turns = [instructions(lines[a:b + 1]) for a, b in found]
    return min(turns, key=lambda turn: (-count(turn, "HMMA"), sum(turn.values())), default=None)


def tokens_a_turn(name, loop):
    """Tokens that a warp takes in a turn of its loop: as many as were transposed, 8 for each 8 heads."""
    return 8 * count(loop, "MOVM") // (int(name.split()[-2]) // 8)


def shortest_turn(lines, labels, first, last):
    """Instructions of the shortest way through a loop that has a multiply-add: branches are taken where that is
    shorter."""
    seen, queue = set(), [(0, first, False, ())]
    while queue:
        spent, i, multiplies, names = heapq.heappop(queue)
        here = tuple(instructions(lines[i:i + 1])) if first <= i <= last else ()
        multiplies = multiplies or any(name.startswith("FFMA") for name in here)
        if (i, multiplies) in seen or not first <= i <= last:
            continue
        seen.add((i, multiplies))
        names, spent = names + here, spent + len(here)
        if i == last:
            if multiplies:
                return collections.Counter(names)
            continue
        jump = re.search(r"(@!?U?P\w+\s+)?BRA(?:\.\w+)*(?: \S+,)? `\((\.L_x_\d+)\)", lines[i])
        if jump:
            heapq.heappush(queue, (spent, labels[jump[2]], multiplies, names))
        if not jump or jump[1] or "," in jump[0]:
            heapq.heappush(queue, (spent, i + 1, multiplies, names))
    return collections.Counter()


def plain_turn(sass):
    """Of the loop with the most multiply-adds, the shortest turn, if there is one with such."""
    lines, labels, found = loops(sass)
    turns = [shortest_turn(lines, labels, *loop) for loop in found]
    return max(turns, key=lambda turn: count(turn, "FFMA"), default=collections.Counter())


def resident_blocks(kernels, folder):
    """Blocks a multiprocessor, by cuda_occupancy.h: [(architecture, registers, shared)] -> [blocks]."""
    program = os.path.join(folder, "occupancy")
    include = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(find_tool("nvcc")))), "include")
    subprocess.run([os.environ.get("CXX", "g++"), "-std=c++20", "-I" + include, "-o", program,
                    os.path.join(ROOT, "bench", "cuda_occupancy.cpp")], check=True)
    text = "".join(f"{a[3:]} {THREADS} {registers} {shared}\n" for a, registers, shared in kernels)
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
    return [int(line) for line in done.stdout.split()]


def gather(architectures):
    """Rows of COLUMNS, and a list of what is wrong with kernels by themselves."""
    rows, wrong = [], []
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = [(s, a) for s in sorted(glob.glob(os.path.join(CUDA, "*.cu"))) for a in architectures]
        for (_, architecture), (used, sass) in zip(jobs, pool.map(lambda job: compile_kernels(*job, folder), jobs)):
            names = demangle(list(used))
            for mangled, (registers, shared, lost) in used.items():
                name, loop = kernel_name(names[mangled]), coded_loop(sass[mangled])
                wrong += [f"{name}, {architecture}: {what}" for what in faults(name, lost, sass[mangled], loop)]
                counted = loop or plain_turn(sass[mangled])
                hmma, ffma = count(counted, "HMMA"), 0 if loop else count(counted, "FFMA")
                issued = sum(counted.values()) if hmma + ffma else 0
                tokens = tokens_a_turn(name, loop) if loop else 0
                rows.append([name, architecture, registers, shared, 0, issued, hmma, tokens, ffma])
        for row, blocks in zip(rows, resident_blocks([r[1:4] for r in rows], folder)):
            row[4] = blocks
    return sorted(rows, key=lambda row: (row[0], row[1])), wrong


def faults(name, lost, sass, loop):
    """What a kernel's head comment rules out and its SASS shows."""
    everything = instructions(sass.split("\n"))
    if lost:
        yield f"{lost} bytes of stack or spilled registers, expected none"
    if any(i.startswith(("LDL", "STL")) for i in everything):
        yield "uses local memory"
    if name.startswith("attend_codes"):
        if loop is None:
            yield "no loop with HMMA"
            return
        for instruction in loop:
            if CONVERSIONS.match(instruction):
                yield f"{instruction} in the loop over codes, which are widened without conversions"
        if " k4 " in name and name.endswith(" 128") and not count(loop, "LDG.E.128"):
            yield "no load of 128 bits in the loop over codes"
        if count(loop, "BAR"):
            yield "a barrier in the loop over codes"


def read_table():
    with open(TABLE, encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file if not line.startswith("#")]
    return [[r[0], r[1], *map(int, r[2:])] for r in lines[1:]]


def read_gpus():
    """{name: (multiprocessors, GHz, GB/s, whose code)}, of harness/compress/cuda/gpus.tsv."""
    with open(GPUS, encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file if not line.startswith("#")]
    return {r[0]: (int(r[1]), float(r[2]), float(r[3]), r[4]) for r in lines[1:]}


DEVICES = read_gpus()


def check(architectures):
    """Against the table: no more registers or shared memory, no fewer blocks, instructions within 5 percent."""
    rows, wrong = gather(architectures)
    budget = {(r[0], r[1]): r for r in read_table() if r[1] in architectures}
    for row in rows:
        allowed = budget.pop((row[0], row[1]), None)
        if allowed is None:
            wrong.append(f"{row[0]}, {row[1]}: not in harness/compress/cuda/kernels.tsv")
            continue
        over = row[2] > allowed[2] or row[3] > allowed[3] or row[4] < allowed[4] or row[5] > 1.05 * allowed[5]
        if over:
            found, limits = (dict(zip(COLUMNS[2:], x[2:])) for x in (row, allowed))
            wrong.append(f"{row[0]}, {row[1]}: {found}, allowed: {limits}")
    wrong += [f"{name}, {architecture}: in harness/compress/cuda/kernels.tsv, but not compiled" for name, architecture in budget]
    return wrong


def operand_bytes(text, dim, group):
    """Bytes of a token's K or V, of a name's word as k4c: codes, scales and zeros."""
    bits = int(re.search(r"\d+", text)[0])
    scale_zero = 0 if bits >= 16 else dim / group * 4
    return dim * bits / 8 + scale_zero


def predict(row, device, point, group=32):
    """Bytes a token and KV head, ms by bytes, ms by instructions; a prediction. The plain kernels read K or V, 128
    channels, for up to four query heads."""
    multiprocessors, ghz, gb_a_second, _ = DEVICES[device]
    words = row[0].split()
    if row[6]:
        token_bytes = sum(operand_bytes(w, int(words[-1]), group) for w in words[2:4])
        warp_instructions = row[5] / row[7]
    else:  # a multiply-add for each of four heads, and one for scale and zero
        token_bytes = operand_bytes(words[1], PLAIN_DIM, group)
        warp_instructions = PLAIN_DIM * (5 if int(words[1]) <= 8 else 4) * row[5] / row[8] / 32
    tokens = point.tokens * point.batch * point.kv_heads * point.layers
    by_bytes = tokens * token_bytes / (gb_a_second * 1e9) * 1e3
    by_slots = tokens * warp_instructions / (4 * multiprocessors * ghz * 1e9) * 1e3
    return token_bytes, by_bytes, by_slots


def kind_of(row):
    """What a kernel of 16 bits is compared with: its own head_dim, or whether it reads K or V. None: not predicted."""
    words = row[0].split()
    if row[6]:
        return "attend_codes " + words[-1]
    is_plain = row[8] and re.match(r"(score|accumulate)_(rows|channels|spread)$", words[0])
    return words[0].split("_")[0] if is_plain else None


def predictions(device, point):
    rows = [r for r in read_table() if kind_of(r) and r[1] == DEVICES[device][3]]
    base = {}
    for row in rows:
        if " k16 v16 " in row[0] or row[0] in ("score_rows 16", "accumulate_rows 16"):
            base[kind_of(row)] = max(predict(row, device, point)[1:])
    for row in rows:
        token_bytes, by_bytes, by_slots = predict(row, device, point)
        least, full = max(by_bytes, by_slots), base.get(kind_of(row))
        yield row, token_bytes, by_bytes, by_slots, least, full / least if full else None


def print_predictions(device, point):
    print(f"predicted, not measured: {device}, {point.batch} sequences of {point.tokens} tokens, {point.kv_heads} KV "
          f"heads, {point.layers} layers, groups of 32; ms a step\n")
    print(f"{'kernel':36}{'bytes a token':>14}{'by bytes':>10}{'by slots':>10}{'least':>9}{'over 16 bits':>14}  bound")
    for row, token_bytes, by_bytes, by_slots, least, gain in predictions(device, point):
        bound = "bytes" if by_bytes >= by_slots else f"instructions, by {by_slots / by_bytes:.2f} x"
        said = f"{gain:.2f} x" if gain else "-"
        print(f"{row[0]:36}{token_bytes:14.0f}{by_bytes:10.2f}{by_slots:10.2f}{least:9.2f}{said:>14}  {bound}")


def page_table(point):
    lines = ["| Kernel | Registers, sm_80 / sm_90 | Shared bytes | Blocks a multiprocessor | Bytes a token | "
             "H100, predicted ms | bound by | over 16 bits | A100, predicted ms | bound by | over 16 bits |",
             "|---" * 11 + "|"]
    table = {(r[0], r[1]): r for r in read_table()}
    found = {device: {p[0][0]: p for p in predictions(device, point)} for device in ("h100", "a100")}
    for name in sorted({n for n, _ in table}):
        old, new = table[name, "sm_80"], table[name, "sm_90"]
        cells = [f"`{name}`", f"{old[2]} / {new[2]}", str(new[3]), f"{old[4]} / {new[4]}"]
        if name in found["h100"]:
            cells.append(f"{found['h100'][name][1]:.0f}")
            for device in ("h100", "a100"):
                _, _, by_bytes, by_slots, least, gain = found[device][name]
                bound = "bytes" if by_bytes >= by_slots else f"instructions, {by_slots / by_bytes:.2f} x"
                cells += [f"{least:.1f}", bound, f"{gain:.2f} x" if gain else "-"]
        else:
            cells += ["-"] * 7
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def made_from():
    """The sources and the nvcc that rows are made from: what a line of the file says."""
    digest = hashlib.sha256()
    sources = [path for end in ("*.cu", "*.cuh", "*.h") for path in glob.glob(os.path.join(CUDA, end))]
    for path in sorted(sources) + [os.path.join(INCLUDE, "kvc", "quant", "stored_numbers.h")]:
        with open(path, "rb") as file:
            digest.update(file.read())
    told = subprocess.run([find_tool("nvcc"), "--version"], capture_output=True, text=True, check=True).stdout
    return f"# of sources with SHA-256 {digest.hexdigest()}, nvcc {re.search(r'V([0-9.]+)', told)[1]}\n"


def is_unchanged():
    with open(TABLE, encoding="utf-8") as file:
        return made_from() in file.readlines()


def write(point):
    rows, wrong = gather(ARCHITECTURES)
    if wrong:
        sys.exit("\n".join(wrong))
    with open(TABLE, "w", encoding="utf-8") as file:
        file.write("# Made by bench/cuda_kernels.py --write: what nvcc makes of the kernels, and what --check allows.\n"
                   "# blocks: resident a multiprocessor; instructions, hmma, tokens: of a warp's turn of the loop over "
                   "whole tiles;\n# or instructions, ffma: of the shortest turn of the loop with the most multiply-"
                   "adds.\n" + made_from())
        for row in [COLUMNS, *rows]:
            file.write("\t".join(map(str, row)) + "\n")
    write_page(point)


def write_page(point):
    begin, end = "<!-- made by bench/cuda_kernels.py --write -->", "<!-- end -->"
    with open(PAGE, encoding="utf-8") as file:
        before, _, rest = file.read().partition(begin)
    after = rest.partition(end)[2]
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(f"{before}{begin}\n{page_table(point)}\n{end}{after}")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--architectures", nargs="+", choices=ARCHITECTURES, default=ARCHITECTURES)
    parser.add_argument("--unless-unchanged", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--predict", choices=DEVICES)
    for name, value in {"tokens": 32768, "batch": 16, "kv-heads": 8, "layers": 32}.items():
        parser.add_argument("--" + name, type=int, default=value)
    point = parser.parse_args()
    for name in ("tokens", "batch", "kv_heads", "layers"):
        if getattr(point, name) < 1:
            parser.error(f"--{name.replace('_', '-')} {getattr(point, name)}, allowed: 1 or more")
    if point.predict:
        print_predictions(point.predict, point)
        return
    missing = [tool for tool in ("nvcc", "nvdisasm", "c++filt") if not find_tool(tool)]
    if missing:
        print("skipped: no " + ", ".join(missing))
        sys.exit(77)
    if point.write:
        write(point)
        return
    if point.unless_unchanged and is_unchanged():
        print("harness/compress/cuda/kernels.tsv was made from these sources by this nvcc")
        return
    wrong = check(point.architectures)
    print("\n".join(wrong) if wrong else "the kernels are within harness/compress/cuda/kernels.tsv")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
