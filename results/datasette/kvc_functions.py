"""Datasette's side of `kvc serve`: the program's SQL functions, from the program's own library (KVC_FUNCTIONS); who may
ask, and for how much."""

import ctypes
import math
import os
import re
import sqlite3
import weakref

from datasette import hookimpl

HERE = ("127.0.0.1", "localhost", "[::1]")
# A time limit does not end a function that makes one long value, nor does a limit of rows bound their bytes.
LONGEST_VALUE = 4 << 20  # bytes; a prompt of a million tokens has as many characters
LARGEST_ANSWER = 64 << 20
SQLITE_MEMORY = 1 << 30  # of all connections
LIBRARY = ctypes.CDLL(os.environ["KVC_FUNCTIONS"])
for name in ("wilson_low", "wilson_high"):
    function = getattr(LIBRARY, "kvc_" + name)
    function.argtypes, function.restype = [ctypes.c_double, ctypes.c_double], ctypes.c_double
LIBRARY.kvc_ends_in_loop.argtypes = [ctypes.c_char_p, ctypes.c_int]
# Of a group: how many of the arguments are columns of numbers; the others are the same for the whole group.
AGGREGATES = {"median": (1, 1), "score_low": (1, 1), "score_high": (1, 1), "quartile": (1, 2), "clustered_low": (3, 3),
              "clustered_high": (3, 3)}
for name, (n_columns, n_arguments) in AGGREGATES.items():
    function = getattr(LIBRARY, "kvc_" + name)
    function.argtypes = [ctypes.POINTER(ctypes.c_double)] * n_columns + [ctypes.c_int] * (1 + n_arguments - n_columns)
    function.restype = ctypes.c_double
LIBRARY.kvc_interval_views.restype = ctypes.c_char_p


def of_counts(function):
    return lambda k, n: None if k is None or n is None else function(k, n)


def ends_in_loop(token_ids_json):
    text = None if token_ids_json is None else str(token_ids_json).encode()
    return None if text is None else LIBRARY.kvc_ends_in_loop(text, len(text))


def aggregate(function, n_columns):
    class Aggregate:
        def __init__(self):
            self.rows, self.more = [], ()

        def step(self, *values):
            if values[0] is not None:
                self.rows.append(values[:n_columns])
                self.more = values[n_columns:]

        def finalize(self):
            n = len(self.rows)
            if not n:
                return None
            found = function(*((ctypes.c_double * n)(*column) for column in zip(*self.rows)), n, *self.more)
            return None if math.isnan(found) else found

    return Aggregate


def bounded_rows():
    """A row factory that counts the bytes of each cursor's rows."""
    last, n_bytes = lambda: None, 0

    def row(cursor, values):
        nonlocal last, n_bytes
        if last() is not cursor:
            last, n_bytes = weakref.ref(cursor), 0
        n_bytes += sum(len(value) for value in values if isinstance(value, (str, bytes)))
        if n_bytes > LARGEST_ANSWER:
            raise sqlite3.OperationalError(
                f"the answer is larger than {LARGEST_ANSWER >> 20} MB: ask for fewer rows, or columns without long texts")
        return sqlite3.Row(cursor, values)

    return row


def limit_memory(conn):
    if hasattr(conn, "setlimit"):  # Python 3.11
        conn.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
    conn.execute(f"PRAGMA hard_heap_limit = {SQLITE_MEMORY}")
    conn.row_factory = bounded_rows()


@hookimpl
def prepare_connection(conn, database):
    limit_memory(conn)
    for name in ("wilson_low", "wilson_high"):
        conn.create_function(name, 2, of_counts(getattr(LIBRARY, "kvc_" + name)), deterministic=True)
    conn.create_function("ends_in_loop", 1, ends_in_loop, deterministic=True)
    for name, (n_columns, n_arguments) in AGGREGATES.items():
        conn.create_aggregate(name, n_arguments, aggregate(getattr(LIBRARY, "kvc_" + name), n_columns))
    if database != "_internal":  # Datasette's own, which has no results
        conn.execute(LIBRARY.kvc_interval_views().decode())


def is_here(scope):
    hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
    return len(hosts) == 1 and re.sub(r":\d+$", "", hosts[0]).lower() in HERE


@hookimpl
def asgi_wrapper():
    """A page from elsewhere whose name leads to this machine (DNS rebinding) names itself in Host, and reads nothing."""

    def wrap(app):
        async def answer(scope, receive, send):
            if scope["type"] != "http" or is_here(scope):
                return await app(scope, receive, send)
            await send({"type": "http.response.start", "status": 421, "headers": [(b"content-type", b"text/plain")]})
            await send({"type": "http.response.body", "body": b"kvc serve answers 127.0.0.1 and localhost alone\n"})

        return answer

    return wrap
