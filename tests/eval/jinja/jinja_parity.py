"""Templates drawn at random against jinja2's immutable sandbox, as transformers sets it up.

usage: jinja_parity.py PROGRAM [N [SEED]]. Both give the same text or both refuse; what jinja2 renders may be refused only
where it is said to be not supported or beyond a bound. Exit code 77 where jinja2 is absent.
"""
import datetime
import json
import random
import re
import subprocess
import sys
import warnings

try:
    import jinja2
    import jinja2.ext
    from jinja2.sandbox import ImmutableSandboxedEnvironment
except ImportError as error:
    print(f"SKIP: {error}")
    sys.exit(77)

VARIABLES = {
    "messages": [{"role": "system", "content": " Be brief.\n"}, {"role": "user", "content": "Ünï 🙂 x"}, {"role": "assistant", "content": ""}],
    "n": 7, "zero": 0, "neg": -3, "half": 2.5, "big": 1e20, "yes": True, "no": False, "nothing": None,
    "text": "a-b c\td\u3000é", "empty": "", "quote": "it's \"q\" <b>&\\", "list": [3, 1, 2, 1], "words": ["b", "A", "c", "a"],
    "mixed": [1, "x", None, [2.0, True]], "map": {"b": 1, "a": [1, 2], "items": "own", "é": None}, "tools": None,
}
NAMES = list(VARIABLES) + ["missing", "i", "x", "ns"]
TEXTS = ["''", "'a'", "'a-b'", "\"it's\"", "'\\n'", "'é🙂'", "' x '", "'%'", "'a' 'b'", "'\\x41\\u00e9'"]
KEYS = ["'role'", "'content'", "'a'", "0", "-1", "1", "99", "'items'", "n", "none"]
ATTRIBUTES = ["role", "content", "a", "b", "items", "missing", "x"]
METHODS = ["strip()", "strip('a ')", "lstrip()", "rstrip('\\n')", "split()", "split('-')", "split('-', 1)", "rsplit(' ', 1)", "upper()",
           "lower()", "title()", "capitalize()", "startswith('a')", "endswith(('c', 'é'))", "replace('a', 'bb')", "replace('', '.')",
           "find('b')", "rfind('a')", "count('a')", "join(words)", "join(['x', 'y'])", "items()", "keys()", "values()", "get('a')",
           "get('z', 5)", "index(1)", "isdigit()", "isspace()", "isalpha()", "islower()", "splitlines()", "partition('-')",
           "removeprefix('a')", "zfill(6)", "center(9, '*')", "ljust(4)", "append(1)", "encode()", "casefold()"]
FILTERS = ["trim", "upper", "lower", "title", "capitalize", "length", "count", "first", "last", "list", "string", "int", "float", "tojson",
           "tojson(indent=2)", "tojson(ensure_ascii=True)", "tojson(separators=(',', ':'), sort_keys=True)", "join", "join(', ')",
           "default('d')", "d('d', true)", "replace('a', 'z')", "reverse", "reverse|list", "sort", "sort(reverse=true)", "unique|list",
           "abs", "round", "round(1)", "round(0, 'floor')", "items|list", "dictsort", "dictsort(by='value')", "map('upper')|list", "map(attribute='role')|list",
           "select|list", "select('string')|list", "reject('none')|join(',')", "selectattr('role', 'equalto', 'user')|list",
           "rejectattr('content')|list", "indent", "indent(2, true)", "batch(2)|list", "min", "max", "sum", "e", "safe", "wordcount",
           "select('odd')|list", "map('int', 3)|list", "escape", "unique|first", "center(12)", "sort(attribute='role')|list", "trim('a')"]
TESTS = ["defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number", "integer", "float", "boolean", "true",
         "false", "odd", "even", "divisibleby 2", "equalto 1", "eq('a')", "in list", "in 'abc'", "lower", "upper", "sameas none", "callable", "gt 2", "ne none"]
BINARY = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "and", "or", "in", "not in"]


class Draw:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def one(self, *of):
        return self.random.choice(of)

    def value(self):
        return self.one(self.one(*NAMES), self.one(*TEXTS), str(self.random.randrange(6)), "2.5", "true", "none", "messages", "text", "map")

    def expression(self, depth=0):
        kind, inner = self.random.randrange(14), lambda: self.expression(depth + 1)
        if depth > 2 or kind < 3:
            return self.value()
        if kind == 3:
            return f"({inner()} {self.one(*BINARY)} {inner()})"
        if kind == 4:
            return f"{self.value()} {self.one(*BINARY)} {self.value()} {self.one(*BINARY)} {self.value()}"
        if kind < 8:
            return f"{self.one(self.value(), f'({inner()})')}|{self.one(*FILTERS)}"
        if kind == 8:
            return f"({inner()} is {self.one('', 'not ')}{self.one(*TESTS)})"
        if kind == 9:
            return f"{self.value()}[{self.one(self.one(*KEYS), '1:', ':-1', '::-1', '1:3', '-2:', '::2', '3:0:-1', self.value())}]"
        if kind == 10:
            return f"{self.one('map', 'messages[0]', 'messages[1]', 'text', 'list')}.{self.one(*ATTRIBUTES)}"
        if kind == 11:
            return f"{self.one('text', 'empty', 'quote', 'map', 'list', self.value())}.{self.one(*METHODS)}"
        if kind == 12:
            return self.one(f"[{inner()}, {inner()}]", f"({inner()},)", f"{{'k': {inner()}, 1: {inner()}}}", f"range({self.value()})", f"dict(a={inner()})",
                            f"namespace(x={inner()}).x", f"({inner()} if {inner()} {self.one('', f'else {inner()}')})")
        return self.one("not ", "-", "+") + self.value()

    def tag(self, text):
        return "{%" + self.one("", "-", "+", "") + f" {text} " + self.one("", "-", "+", "") + "%}"

    def block(self, text, depth):
        return self.tag(text) + self.body(depth + 1) + self.tag("end" + text.split()[0])

    def body(self, depth=0):
        return "".join(self.node(depth) for _ in range(self.random.randrange(1, 4)))

    def node(self, depth):
        kind, value = self.random.randrange(14 if depth < 3 else 5), self.value
        if kind < 3:
            return self.one("x", " \n ", "\n", "a\n\n  b", "  ", "\t\n", "{ ", "}} ", "é ", "\r\n")
        if kind == 3:
            return "{{" + self.one("", "-", "+") + f" {value()} ~ {value()} " + self.one("", "-") + "}}"
        if kind == 4:
            return self.one("{#- c {{ x }} -#}\n", "{# c #}\n", " {#+ c +#}\n", self.tag(f"set x = {value()}"), self.tag("set x, i = 1, 2"),
                            self.tag("raw") + " {{ x }} {% if %}\n" + self.tag("endraw"))
        if kind < 7:
            return (self.tag(f"if {value()}") + self.body(depth + 1) + self.one("", self.tag(f"elif {value()}") + self.body(depth + 1)) +
                    self.one("", self.tag("else") + self.body(depth + 1)) + self.tag("endif"))
        if kind < 10:
            over = self.one("messages", "list", "words", "text", "map", "range(3)", "empty", "list|select('odd')")
            loop = self.one("index", "index0", "first", "last", "length", "revindex", "revindex0", "previtem", "nextitem", "cycle('a', 'b')", "changed(i)", "depth")
            leave = self.one("", "", self.tag("if loop.index > 1") + self.tag(self.one("break", "continue")) + self.tag("endif"))
            return (self.tag(f"for i in {over}{self.one('', '', ' if i', ' if i is string')}") + "{{ loop." + loop + " }}" + leave + self.body(depth + 1) +
                    self.one("", self.tag("else") + self.body(depth + 1)) + self.tag("endfor"))
        if kind == 10:
            return (self.tag("set ns = namespace(x=0)") + self.tag("for i in list") + self.tag("set ns.x = ns.x + i") + self.tag(f"set x = {value()}") +
                    self.tag("endfor") + "{{ ns.x }}{{ x }}")
        if kind == 11:
            uses = self.one("", "", "{{ caller() }}", "{{ varargs }}", "{{ kwargs }}")
            call = self.one("{{ m(1) }}", "{{ m(i=3, x='q') }}", f"{{{{ m({value()}, {value()}) }}}}", "{{ m() }}", "{{ m(1, 2, 3) }}", "{{ m(1, z=2) }}",
                            self.tag("call m(1)") + "in" + self.tag("endcall"))
            return self.tag("macro m(x, i=2)") + self.body(depth + 1) + uses + self.tag("endmacro") + call
        if kind == 12:
            return self.block(self.one("set x", "set x | upper", "filter trim", f"with x = {value()}, i = n", "generation"), depth)
        return self.tag("for i, x in " + self.one("map.items()", "map|dictsort", "[(1, 2), (3, 4)]", "[[1, 2]]")) + "{{ i }}{{ x }}" + self.tag("endfor") + "{{ x }}"

    def template(self):
        return "{{ " + self.expression() + " }}" if self.random.random() < 0.6 else self.body()


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    class Generation(jinja2.ext.Extension):
        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

        def _render(self, caller):
            return caller()

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = datetime.datetime(2024, 7, 26).strftime
    return env


REFUSED = re.compile(r"not supported|64 bits|nested deeper|nests deeper|levels|more than|has no text|no text of its own|unhashable|too large|allowed:|items, allowed|no slices")


def main(program, n=20000, seed=1):
    env = environment()
    draw = Draw(int(seed))
    warnings.simplefilter("ignore")  # of what Python thinks of such templates
    run = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
    counts = {"same": 0, "refused by both": 0, "refused": 0, "an address": 0}
    wrong = []
    for _ in range(int(n)):
        template = draw.template()
        try:
            want, why = env.from_string(template).render(**VARIABLES), ""
        except Exception as error:  # whatever Python raises
            want, why = None, f"{type(error).__name__}: {error}"
        run.stdin.write(json.dumps({"template": template, "variables": VARIABLES}) + "\n")
        run.stdin.flush()
        line = run.stdout.readline()
        if not line:
            print(f"the program died of {template!r}")
            return 1
        got = json.loads(line)
        if want is not None and got.get("text") == want:
            counts["same"] += 1
        elif want is None and "error" in got:
            counts["refused by both"] += 1
        elif want is not None and re.search(r" at 0x|&lt;(built|gener|function)|<(Macro|LoopContext|class|function|generator|built)", want):
            counts["an address"] += 1
        elif "error" in got and REFUSED.search(got["error"]):
            counts["refused"] += 1
        else:
            wrong.append(f"{template!r}\n    jinja2 {want!r} {why}\n    kvc    {got}")
    run.stdin.close()
    print(f"{n} templates: {counts}, {len(wrong)} wrong")
    for message in wrong[:int(20)]:
        print("  " + message)
    return 1 if wrong or counts["same"] < int(n) // 5 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
