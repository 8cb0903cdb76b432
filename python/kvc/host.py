"""Runs a compressor written in Python for kvc (docs/protocol.md): started by kvc, with shared memory on descriptors 3 to 5."""
import array
import ast
import ctypes
import gc
import hashlib
import importlib
import json
import mmap
import os
import resource
import signal
import struct
import sys
import sysconfig
import traceback
import types
import warnings

from kvc.compressor import Compressor, Option

CONTROL, INPUTS, OUTPUTS = 3, 4, 5
CONTROL_BYTES = 8 << 20
REQUEST_AT, ANSWER_AT = 4096, CONTROL_BYTES // 2
MESSAGE = struct.Struct("<IIII14q")
PLACE = struct.Struct("<QII4q")
NO_TENSOR = 255
ALIGNMENT = 64
TYPES = ("float32", "float16", "bfloat16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool")
ITEM_BYTES = (4, 2, 2, 8, 8, 4, 2, 1, 1, 1)
LEAST_BLOB = 4096  # bytes of what is no array
DONE, FAILED, OUT_OF_MEMORY = 0, 1, 2
KINDS = ("codes", "scales", "zeros", "low_rank", "sparse_values", "sparse_index", "means", "norms", "sketch", "codebook",
         "recent", "mask", "index", "scores", "parameters")
K, V, SHARED = 0, 1, 2
SYS_FUTEX, FUTEX_WAIT, FUTEX_WAKE = {"x86_64": (202, 0, 1), "aarch64": (98, 0, 1)}[os.uname().machine]

libc = ctypes.CDLL(None, use_errno=True)


def contents_of(file):
    with open(file, "rb") as opened:
        return opened.read()


class Torch:
    """Arrays as torch tensors."""

    def __init__(self):
        self.torch = sys.modules["torch"]
        self.types = [getattr(self.torch, name) for name in TYPES]
        warnings.filterwarnings("ignore", message="The given buffer is not writable")
        self.name = f"torch {self.torch.__version__}"
        self.torch.set_grad_enabled(False)

    def set_threads(self, n):
        self.torch.set_num_threads(n)

    def view(self, memory, number, offset, sizes):
        count = 1
        for size in sizes:
            count *= size
        if count == 0:
            return self.torch.empty(sizes, dtype=self.types[number])
        return self.torch.frombuffer(memory, dtype=self.types[number], count=count, offset=offset).reshape(sizes)

    def is_array(self, x):
        return isinstance(x, self.torch.Tensor)

    def float32(self, x):
        return x.to(self.torch.float32)

    def int64(self, x):
        return self.torch.as_tensor(x).to(self.torch.int64)

    def copy_to(self, x, memory, offset):
        x = x.detach().cpu().contiguous()
        if x.numel():
            self.view(memory, self.number(x), offset, tuple(x.shape)).copy_(x)

    def number(self, x):
        return self.types.index(x.dtype)

    def storage(self, x):
        """Where the storage is that it is a part of, and its bytes."""
        storage = x.untyped_storage()
        return storage.data_ptr(), storage.nbytes()

    def all_finite(self, x):
        return bool(self.torch.isfinite(x.sum()))

    def positions(self, n_heads, n):
        return self.torch.arange(n).expand(n_heads, n)


class NumPy:
    """Arrays as NumPy's."""

    def __init__(self):
        import numpy
        self.numpy = numpy
        self.name = f"NumPy {numpy.__version__}"

    def set_threads(self, n):
        pass

    def view(self, memory, number, offset, sizes):
        name = TYPES[number]
        count = 1
        for size in sizes:
            count *= size
        if name != "bfloat16":
            return self.numpy.frombuffer(memory, dtype=name, count=count, offset=offset).reshape(sizes)
        halves = self.numpy.frombuffer(memory, dtype="uint16", count=count, offset=offset)
        return (halves.astype("uint32") << 16).view("float32").reshape(sizes)

    def is_array(self, x):
        return isinstance(x, (self.numpy.ndarray, self.numpy.generic))

    def float32(self, x):
        return self.numpy.asarray(x, dtype="float32")

    def int64(self, x):
        return self.numpy.asarray(x, dtype="int64")

    def copy_to(self, x, memory, offset):
        if x.size:
            x = self.numpy.ascontiguousarray(x)
            self.numpy.frombuffer(memory, dtype=x.dtype, count=x.size, offset=offset).reshape(x.shape)[...] = x

    def number(self, x):
        return TYPES.index(x.dtype.name)

    def storage(self, x):
        while isinstance(x.base, self.numpy.ndarray):
            x = x.base
        return x.__array_interface__["data"][0], x.nbytes

    def all_finite(self, x):
        return bool(self.numpy.isfinite(x.sum(dtype="float64")))

    def positions(self, n_heads, n):
        return self.numpy.broadcast_to(self.numpy.arange(n), (n_heads, n))


def blob_bytes(thing):
    """Of what is no array and can hold numbers all the same: bytes, long lists of numbers, huge integers; else 0."""
    if isinstance(thing, (bytes, bytearray, memoryview, array.array, str, int)):
        size = thing.nbytes if isinstance(thing, memoryview) else sys.getsizeof(thing)
        return size if size >= LEAST_BLOB else 0
    if isinstance(thing, (list, tuple, set, frozenset)) and len(thing) >= LEAST_BLOB // 8:
        return sys.getsizeof(thing) if isinstance(next(iter(thing)), (int, float)) else 0
    return 0


def reachable_arrays(thing, is_array, name, seen):
    """(name, array) of all arrays in the object's attributes, lists, tuples, dicts and the objects in them."""
    if id(thing) in seen or isinstance(thing, (float, bool, type(None), type, types.ModuleType)):
        return
    seen.add(id(thing))
    if blob_bytes(thing):
        yield name, thing
    if isinstance(thing, (str, bytes, int, bytearray, memoryview, array.array)):
        return
    if is_array(thing):
        yield name, thing
        return
    if isinstance(thing, types.MethodType):
        yield from reachable_arrays(thing.__self__, is_array, name, seen)
        return
    if isinstance(thing, types.FunctionType):
        for cell in thing.__closure__ or ():
            try:
                inner = cell.cell_contents
            except ValueError:  # not filled yet
                continue
            yield from reachable_arrays(inner, is_array, name, seen)
        return
    if isinstance(thing, dict):
        for key, value in list(thing.items()):
            yield from reachable_arrays(value, is_array, name or str(key), seen)
        return
    if isinstance(thing, (list, tuple, set, frozenset)) or type(thing).__name__ == "deque":
        for value in list(thing):
            yield from reachable_arrays(value, is_array, name, seen)
        return
    for slot in getattr(type(thing), "__slots__", ()):
        if hasattr(thing, slot):
            yield from reachable_arrays(getattr(thing, slot), is_array, name or slot, seen)
    yield from reachable_arrays(getattr(thing, "__dict__", None), is_array, name, seen)


def tensor_of_name(name):
    name = name.lstrip("_").lower()
    return K if name.startswith("k") else V if name.startswith("v") else SHARED


def kind_of_name(name):
    for number, kind in enumerate(KINDS):
        if name.endswith(kind):
            return number
    return 0


class Host:
    def __init__(self):
        self.control = mmap.mmap(CONTROL, CONTROL_BYTES)
        self.inputs = mmap.mmap(INPUTS, os.fstat(INPUTS).st_size, prot=mmap.PROT_READ)
        self.outputs = mmap.mmap(OUTPUTS, os.fstat(OUTPUTS).st_size)
        self.words = [ctypes.c_uint32.from_buffer(self.control, 4 * i) for i in range(4)]
        self.input_range = mapping_of(INPUTS)
        self.caches, self.next_cache, self.held_by = {}, 0, {}
        self.cls = self.options = self.arrays = None
        self.handlers = {1: self.describe, 2: self.create, 3: self.check_model, 4: lambda: None, 5: self.paper_bytes,
                         6: self.make_cache, 7: self.drop_cache, 8: self.append, 9: self.attend, 11: self.dequantize,
                         12: self.attended, 13: self.cache, 14: self.positions, 15: self.counts, 16: self.footprint,
                         17: self.droppable, 21: self.probed_parts, 28: self.settle, 29: self.answer_at_once}

    def serve(self):
        number = 0
        while True:
            while self.words[1].value == number:
                self.futex(self.words[1], FUTEX_WAIT, number, 60)
            number += 1
            self.answer()
            self.words[2].value = number
            self.futex(self.words[2], FUTEX_WAKE, 1 << 30, None)

    @staticmethod
    def futex(word, operation, value, seconds):
        class Time(ctypes.Structure):
            _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]
        time = ctypes.byref(Time(seconds, 0)) if seconds else None
        libc.syscall(SYS_FUTEX, ctypes.byref(word), operation, ctypes.c_uint32(value), time, None, 0)

    # A request and its answer.

    def answer(self):
        self.operation, _, n_places, n_text, *self.numbers = MESSAGE.unpack_from(self.control, REQUEST_AT)
        at = REQUEST_AT + MESSAGE.size
        self.places = [PLACE.unpack_from(self.control, at + i * PLACE.size) for i in range(n_places)]
        at += n_places * PLACE.size
        self.text = self.control[at:at + n_text].decode()
        self.out_numbers, self.out_arrays, self.out_text, self.sequence = [], [], "", None
        status = DONE
        try:
            handler = self.handlers.get(self.operation)
            if handler is None:
                raise NotImplementedError(f"a compressor in Python has no operation {self.operation}")
            handler()
        except MemoryError:
            status = OUT_OF_MEMORY
        except BaseException as error:  # SystemExit, too: it is the compressor's failure, and told
            status = FAILED
            if not isinstance(error, Refused):
                traceback.print_exc()
            self.out_numbers, self.out_arrays, self.out_text = [], [], self.said_of(error)
        try:
            self.send(status)
        except Exception as error:
            self.out_numbers, self.out_arrays, self.out_text = [], [], f"its answer cannot be sent: {error}"
            self.send(FAILED)

    def said_of(self, error):
        if isinstance(error, Refused):
            return str(error)
        place = ""
        if getattr(self, "file", None):
            for frame in traceback.extract_tb(error.__traceback__):
                if frame.filename == self.file:
                    place = f" ({os.path.basename(self.file)}:{frame.lineno} in {frame.name})"
            if isinstance(error, SyntaxError) and error.filename == self.file:
                place = f" ({os.path.basename(self.file)}:{error.lineno})"
        said = str(error.msg if isinstance(error, SyntaxError) else error)
        return f"{type(error).__name__}: {said}{place}" if said else f"{type(error).__name__}{place}"

    def send(self, status):
        numbers = (self.out_numbers + [0] * 14)[:14]
        if self.sequence is not None:
            held = [self.held_by.get(number, (0, 0)) for number, made in self.caches.items() if made[1] == self.sequence]
            numbers[4], numbers[5] = sum(bytes for bytes, _ in held), sum(n for _, n in held)
            numbers[7] = numbers[4]
        places, offset = [], 0
        for array in self.out_arrays:
            number = self.arrays.number(array)
            n_bytes = ITEM_BYTES[number]
            for size in array.shape:
                n_bytes *= size
            if offset + n_bytes > len(self.outputs):
                raise MemoryError("an array larger than the memory that is shared")
            self.arrays.copy_to(array, self.outputs, offset)
            sizes = list(array.shape) + [0] * (4 - len(array.shape))
            places.append(PLACE.pack(offset, number, len(array.shape), *sizes))
            offset += -(-n_bytes // ALIGNMENT) * ALIGNMENT
        text = self.out_text.encode("utf-8", "replace")[:1 << 20]
        message = MESSAGE.pack(self.operation, status, len(places), len(text), *numbers) + b"".join(places) + text
        self.control[ANSWER_AT:ANSWER_AT + len(message)] = message

    def array(self, i):
        offset, number, n_dims, *sizes = self.places[i]
        if n_dims == NO_TENSOR:
            return None
        return self.arrays.view(self.inputs, number, offset, tuple(sizes[:n_dims]))

    def cache(self):
        cache, self.sequence, _ = self.caches[self.numbers[0]]
        return cache

    # The file.

    def describe(self):
        said = json.loads(self.text)
        self.file = said["file"]
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, self.numbers[0])))
        if self.numbers[1] > 0:
            resource.setrlimit(resource.RLIMIT_DATA, (self.numbers[1], self.numbers[1]))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        source = contents_of(self.file)
        if said["sha256"] and hashlib.sha256(source).hexdigest() != said["sha256"]:
            raise Refused(f"{self.file}: the file was replaced since the run began")
        tree = ast.parse(source, self.file)
        self.import_arrays(tree)
        self.contain([os.path.dirname(self.file)] + [file for file in said["files"] if os.path.isfile(file)])
        sys.path.insert(0, os.path.dirname(self.file))
        name = "compressor_" + os.path.splitext(os.path.basename(self.file))[0]  # no package of that name is hidden
        module = types.ModuleType(name)
        module.__file__ = self.file
        sys.modules[name] = module
        exec(compile(tree, self.file, "exec"), module.__dict__)
        found = [each for each in vars(module).values()
                 if isinstance(each, type) and issubclass(each, Compressor) and each.__module__ == name]
        if len(found) != 1:
            names = ", ".join(each.__name__ for each in found) or "none"
            raise Refused(f"{os.path.basename(self.file)} has {len(found)} classes of kvc.Compressor ({names}), expected one")
        self.cls = found[0]
        self.arrays = Torch() if "torch" in sys.modules else NumPy()
        self.arrays.set_threads(max(1, self.numbers[0]))
        self.known = {}
        for base in reversed(self.cls.__mro__):
            self.known.update({key: value for key, value in vars(base).items() if isinstance(value, Option)})
        doc = (self.cls.__doc__ or "").strip() if self.cls.__doc__ is not Compressor.__doc__ else ""
        flags = ("lossy", "evicts", "estimates", "simulated", "chunked_prompt", "one_by_one_same", "prefix_local")
        capabilities = {flag: bool(getattr(self.cls, flag)) for flag in flags}
        capabilities.update(splits=False, turns_keys=False, formula="",
                            devices="compressors in Python are given tensors on the CPU")
        self.out_text = json.dumps({
            "name": os.path.basename(self.file),
            "summary": doc.splitlines()[0] if doc else "no description: the class has no docstring",
            "source": self.cls.source, "deviations": self.cls.deviations, "capabilities": capabilities,
            "options": [{"name": key, "type": each.type, "default": each.default, "allowed": each.allowed,
                         "help": each.help or "no description"} for key, each in self.known.items()],
            "runtime": ", ".join([f"Python {sys.version.split()[0]}", self.arrays.name] + self.imported_files())})

    def imported_files(self):
        """"name.py SHA-256" of kvc's own files and of those that the compressor imported from its folder, for the key of
        its cells. Installed packages are not among them."""
        own, kvc = (os.path.join(os.path.dirname(os.path.realpath(file)), "") for file in (self.file, __file__))
        installed = os.path.join(os.path.realpath(sysconfig.get_path("stdlib")), "")
        named = {}
        for file in {getattr(module, "__file__", None) for module in list(sys.modules.values())} - {None}:
            file = os.path.realpath(file)
            if file.startswith(kvc):
                named["kvc/" + file[len(kvc):]] = file
            elif file.startswith(own) and not file.startswith(installed) and "-packages/" not in file[len(own):]:
                named[file[len(own):]] = file
        named.pop(os.path.basename(self.file), None)
        return [f"{name} {hashlib.sha256(contents_of(named[name])).hexdigest()}" for name in sorted(named)]

    def import_arrays(self, tree):
        """torch or NumPy, where the file names it: when they are imported they look at the machine, in ways that a
        compressor may not. The file's own folder is not searched for them."""
        names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        warnings.filterwarnings("ignore", message="Failed to initialize NumPy")  # torch works without it
        for package in ("numpy", "torch"):
            if any(name.split(".")[0] == package for name in names):
                importlib.import_module(package)
        if "torch" in sys.modules:
            torch = sys.modules["torch"]
            torch.set_num_threads(max(1, self.numbers[0]))
            x = torch.rand(16, 16)
            torch.linalg.svd(x @ x.T), x.softmax(0), x.half() @ x.half()  # what libraries do once

    def contain(self, readable):
        """From here on the kernel refuses to open files for writing, sockets, processes and the like."""
        paths = {sys.prefix, sys.base_prefix, sys.exec_prefix, os.path.dirname(os.path.realpath(sys.executable)),
                 *(path for path in sys.path if path), *readable, "/lib", "/lib64", "/usr/lib", "/usr/local/lib",
                 "/etc/ld.so.cache", "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/sys/devices/system",
                 "/dev/null", "/dev/urandom", "/usr/share/zoneinfo", "/etc/localtime"}
        library = ctypes.CDLL(os.environ["KVC_CONTAIN"])
        library.kvc_contain.restype = ctypes.c_char_p
        encoded = [os.fsencode(path) for path in sorted(paths)]
        error = library.kvc_contain(0, ctypes.byref(self.words[3]), (ctypes.c_char_p * len(encoded))(*encoded), len(encoded))
        if error:
            raise Refused(error.decode())

    def create(self):
        given = json.loads(self.text)["options"]
        name = os.path.basename(self.file)
        self.options = {key: each.default for key, each in self.known.items()}
        for key, value in given.items():
            if not self.known[key].accepts(value):
                raise Refused(f"plugin '{name}': option '{key}' is {json.dumps(value)}, allowed: {self.known[key].allowed}")
            self.options[key] = float(value) if self.known[key].type == "real" else value
        self.out_text = json.dumps({"resolved": self.options, "bits": float(self.cls.bits_per_number(self.options)),
                                    "attends": hasattr(self.cls, "attend"), "calibration_file": "",
                                    "calibrated_options": [], "joint": False})

    def check_model(self):
        try:
            self.cls.check_model(types.SimpleNamespace(**json.loads(self.text)), dict(self.options))
        except (ValueError, AssertionError) as error:
            raise Refused(f"{os.path.basename(self.file)}: {error}") from None

    def paper_bytes(self):
        model = types.SimpleNamespace(**json.loads(self.text))
        size = float(self.cls.paper_bytes(model, dict(self.options), *self.numbers[:2]))
        self.out_numbers = [struct.unpack("<q", struct.pack("<d", size))[0]]

    # Caches.

    def make_cache(self):
        info = types.SimpleNamespace(**json.loads(self.text))
        frequencies = self.array(0)
        info.rope_frequencies = [] if frequencies is None else [float(each) for each in frequencies]
        cache = self.cls.__new__(self.cls)
        cache.__dict__.update(self.options, info=info, length=0)
        cache.__init__()
        self.sequence = self.numbers[0]
        self.out_numbers = [self.next_cache, 0]
        self.caches[self.next_cache] = (cache, self.sequence, info)
        self.count(self.next_cache)
        self.next_cache += 1

    def drop_cache(self):
        self.cache()
        del self.caches[self.numbers[0]]
        self.held_by.pop(self.numbers[0], None)

    def tokens(self, info):
        arrays = [self.array(i) for i in range(3)]
        for name, x in zip("kv", arrays[1:]):
            n_tokens = arrays[1].shape[1] if arrays[1] is not None and arrays[1].ndim == 3 else 0
            if x is None or x.ndim != 3 or tuple(x.shape) != (info.n_kv_heads, max(1, n_tokens), info.head_dim):
                shape = None if x is None else list(x.shape)
                raise Refused(f"append: {name} has shape {shape}, expected [{info.n_kv_heads}, T >= 1, {info.head_dim}]")
            if not self.arrays.all_finite(x):
                raise Refused(f"append: {name} of layer {info.layer} at position {self.numbers[1]} has a value that is "
                              "not finite")
        return [None if x is None else self.arrays.float32(x) for x in arrays]

    def append(self):
        cache = self.cache()
        info = self.caches[self.numbers[0]][2]
        q, k, v = self.tokens(info)
        if self.numbers[1] != cache.length:
            raise Refused(f"append: first_position {self.numbers[1]}, expected {cache.length}")
        n_tokens = k.shape[1]
        cache.append(k, v, q)
        cache.__dict__["length"] += n_tokens
        del q, k, v
        self.count(self.numbers[0])

    def count(self, number):
        """What the cache holds: the storages of all arrays that can be reached from it, each once."""
        storages = {}
        for name, x in reachable_arrays(self.caches[number][0], self.arrays.is_array, "", set()):
            if not self.arrays.is_array(x):
                storages[id(x)] = blob_bytes(x)
                continue
            address, n_bytes = self.arrays.storage(x)
            if self.input_range[0] <= address < self.input_range[1]:
                raise Refused(f"append() kept the caller's memory in '{name}'; copy what you keep (torch: .clone())")
            if n_bytes:
                storages[address] = n_bytes
        self.held_by[number] = (sum(storages.values()), len(storages))

    def footprint(self):
        cache = self.cache()
        held = cache.held() if cache.length > 0 else {}
        seen, rows = set(), {}
        named = reachable_arrays(cache if held is None else dict(held), self.arrays.is_array, "", set())
        for name, x in named:
            address, n_bytes = self.arrays.storage(x) if self.arrays.is_array(x) else (id(x), blob_bytes(x))
            if address in seen or not n_bytes:
                continue
            seen.add(address)
            key = (tensor_of_name(name), kind_of_name(name))
            rows[key] = rows.get(key, 0) + n_bytes
        self.out_text = json.dumps([[tensor, kind, n_bytes] for (tensor, kind), n_bytes in rows.items()])

    def key_value(self, method, pair):
        info = self.caches[self.numbers[0]][2]
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not all(self.arrays.is_array(x) for x in pair):
            raise Refused(f"{method}() gave {type(pair).__name__}, expected two arrays, K and V")
        cache = self.cache()
        positions = cache.positions()
        n_kept = cache.length if positions is None else positions.shape[1]
        for name, x in zip("kv", pair):
            if tuple(x.shape) != (info.n_kv_heads, n_kept, info.head_dim):
                raise Refused(f"{method}() gave {name} of shape {list(x.shape)}, expected "
                              f"{[info.n_kv_heads, n_kept, info.head_dim]}")
        self.out_arrays = [self.arrays.float32(x) for x in pair]

    def attended(self):
        self.key_value("attended", self.cache().attended())

    def dequantize(self):
        self.key_value("dequantize", self.cache().dequantize())

    def answer_at_once(self):
        """What an audit asks for: positions, attended(), dequantize() where it is another, and the footprint."""
        self.positions()
        arrays = self.out_arrays
        self.attended()
        arrays = arrays + self.out_arrays
        if type(self.cache()).dequantize is not Compressor.dequantize:
            self.dequantize()
            arrays = arrays + self.out_arrays
        self.footprint()
        self.out_arrays = arrays

    def attend(self):
        q = self.arrays.float32(self.array(0))
        attention = self.cache().attend(q)
        if not self.arrays.is_array(attention) or tuple(attention.shape) != tuple(q.shape):
            raise Refused(f"attend() gave {list(getattr(attention, 'shape', []))}, expected {list(q.shape)}")
        self.out_arrays = [self.arrays.float32(attention)]

    def positions(self):
        cache = self.cache()
        positions = cache.positions()
        if positions is None:
            positions = self.arrays.positions(self.caches[self.numbers[0]][2].n_kv_heads, cache.length)
        self.out_arrays = [self.arrays.int64(positions)]

    def counts(self):
        cache = self.cache()
        info = self.caches[self.numbers[0]][2]
        n_tokens, numbers = int(cache.n_encoded_tokens()), cache.n_encoded_numbers()
        if numbers is None:
            positions = cache.positions()
            n_kept = cache.length if positions is None else int(self.arrays.int64(positions).shape[1])
            numbers = 2 * info.n_kv_heads * info.head_dim * max(0, min(n_kept, n_tokens - (cache.length - n_kept)
                                                                       if positions is not None else n_tokens))
        self.out_numbers = [cache.length, n_tokens, int(numbers)]

    def droppable(self):
        self.cache()
        self.out_numbers = [0]

    def probed_parts(self):
        self.cache()
        self.out_text = "[]"

    def settle(self):
        gc.collect()
        libc.malloc_trim(0)


class Refused(Exception):
    """A failure that is told as it is."""


def mapping_of(descriptor):
    """The addresses at which a descriptor's file is mapped."""
    inode = str(os.fstat(descriptor).st_ino)
    with open("/proc/self/maps") as maps:
        for line in maps:
            fields = line.split()
            if fields[4] == inode and "kvc-inputs" in line:
                first, last = fields[0].split("-")
                return int(first, 16), int(last, 16)
    return 0, 0


def main():
    libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    libc.prctl(15, b"kvc-host")  # PR_SET_NAME
    Host().serve()


if __name__ == "__main__":
    main()
