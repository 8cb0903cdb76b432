"""The rows of the shards, as the pages ask for them."""
import itertools
import json
import sqlite3
import statistics
import subprocess

TASKS = "likelihood/sources/*"
LENGTH = 2048
LAST = 64  # tokens, which both tasks of evidence_accumulated score
GSM8K, BBH = "GSM8K", "BBH"
QUESTIONS = {GSM8K: ("gsm8k/cot8", "first_answer"), BBH: ("bbh/*", "gear")}  # tasks and the rule that reads answers
FULL = "full precision"
SURE = 0.05  # p after Holm


class Evidence:
    def __init__(self, program, database):
        self.program, self.database = program, database
        self.rows = sqlite3.connect(database)
        self.models = [model for (model,) in self.rows.execute(
            "SELECT model FROM cell WHERE task LIKE 'likelihood/sources/%' AND kind = 'eval' GROUP BY 1"
            " ORDER BY min(model_json ->> '$.shape.n_layers'), 1")]
        self.answering = {questions: [model for (model,) in self.rows.execute(
            "SELECT model FROM cell WHERE task GLOB ? AND kind = 'eval' GROUP BY 1 ORDER BY 1", (tasks,))]
            for questions, (tasks, _) in QUESTIONS.items()}
        self.any_models = list(dict.fromkeys(self.models + sum(self.answering.values(), [])))
        self.paired = {}
        self.begin_page()

    def begin_page(self):
        """p are adjusted for the comparisons of one page"""
        self.compared = {}

    def told(self, *arguments):
        done = subprocess.run([self.program, *arguments, "--format", "json"], capture_output=True, text=True)
        return json.loads(done.stdout)["rows"] if done.returncode == 0 else []

    def against(self, model, a):
        """{b: row of `kvc compare`} of every row on a's tokens"""
        if (model, a) not in self.paired:
            self.paired[model, a] = {row["B"]: row for row in self.told(
                "compare", self.database, "--baseline", a, "--model", model, "--kl", "--pooled", "--paired-only", "--task", TASKS)}
        return self.paired[model, a]

    def kl(self, model, a, b):
        """{"a", "b": mean KL in nats, "difference", "low", "high", "p", "windows"} of b less a, on the same tokens; None: not run"""
        if (model, a, b) not in self.compared:
            found = self.against(model, a).get(b, {})
            self.compared[model, a, b] = None if found.get("p") is None else {
                "a": found["KL A [nats]"], "b": found["KL B [nats]"], "difference": found["B - A [nats]"], "low": found["low [nats]"],
                "high": found["high [nats]"], "p": found["p"], "windows": found["windows"]}
        return self.compared[model, a, b]

    def answers_against(self, model, a, questions):
        """{b: row of `kvc compare`} of every row on a's questions, those of several tasks as one"""
        if (model, a, questions) not in self.paired:
            tasks, rule = QUESTIONS[questions]
            self.paired[model, a, questions] = {row["B"]: row for row in self.told(
                "compare", self.database, "--baseline", a, "--model", model, "--task", tasks, "--pooled", "--extractor", rule, "--paired-only")}
        return self.paired[model, a, questions]

    def answers(self, model, a, b, questions=GSM8K):
        """{"a", "b": right answers in %, "difference", "low", "high": of b less a, in points, "p", "changed": answers of which one alone is
        right}; None: not run"""
        key = (model, a, b, questions)
        if key not in self.compared:
            found = self.answers_against(model, a, questions).get(b) if model in self.answering[questions] else None
            self.compared[key] = found and {
                "a": found["score A [%]"], "b": found["score B [%]"], "difference": found["difference [points]"], "low": found["low [points]"],
                "high": found["high [points]"], "p": found["p"], "changed": found["regressed"] + found["improved"]}
        return self.compared[key]

    def every_answer(self, model, a, b):
        """{questions: answers} of those that both rows have been asked"""
        return {questions: found for questions in QUESTIONS if (found := self.answers(model, a, b, questions))}

    def answer_rows(self, model, questions=GSM8K):
        """[{"label", "size": KV at the end of its answers in % of 16 bits, "right", "low", "high": %, "n"}] in the experiment's order"""
        tasks, rule = QUESTIONS[questions]
        return self.told("query", "--db", self.database, (
            "SELECT e.label, 100.0 * sum(s.kv_bytes) / sum(s.kv_bytes_fp16) AS size, 100.0 * avg(r.value) AS right,"
            " 100.0 * score_low(r.value) AS low, 100.0 * score_high(r.value) AS high, count(*) AS n FROM cell AS c JOIN experiment_cell AS e"
            " ON e.cell_key = c.key JOIN sample AS s ON s.cell_key = c.key JOIN score AS r ON r.cell_key = c.key AND r.sample = s.sample"
            f" WHERE c.model = '{model}' AND c.task GLOB '{tasks}' AND r.extractor = '{rule}' GROUP BY e.label ORDER BY min(e.position)"))

    def n_questions(self, model, questions=GSM8K):
        return max((row["n"] for row in self.answer_rows(model, questions)), default=0)

    def all_rows(self, model):
        """{row: (KL, low, high)} of every row that differs from full precision, in nats"""
        return {b: (row["KL B [nats]"], row["low [nats]"], row["high [nats]"]) for b, row in self.against(model, FULL).items()
                if row["low [nats]"] is not None}

    def one(self, model, query, row):
        return self.rows.execute(
            f"SELECT {query} FROM cell AS c JOIN experiment_cell AS e ON e.cell_key = c.key WHERE c.model = ? AND e.label = ?"
            " AND c.task LIKE 'likelihood/sources/%'", (model, row)).fetchone()

    def size(self, model, row):
        """% of 16 bits (in layers with a sliding window of what it shows) in caches filled with LENGTH tokens"""
        return self.one(model, "max((SELECT 100.0 * s.kv_bytes / ifnull(s.kv_bytes_engine, s.kv_bytes_fp16) FROM cell_size AS s WHERE s.cell_key = c.key AND"
                               f" s.n_tokens = {LENGTH}))", row)[0]

    def sized(self, model, row):
        size = self.size(model, row)
        return f"{row} ({size:.1f} %)" if size is not None else row

    def medians_of_layers(self, rows, measure):
        """{model: {row: the median layer's mean of a probe's measure}} of rows whose name fits the pattern"""
        of_layer = {}
        for model, row, value in self.rows.execute(
                "SELECT c.model, e.label, avg(p.value) FROM probe AS p JOIN cell AS c ON c.key = p.cell_key JOIN experiment_cell AS e"
                " ON e.cell_key = c.key WHERE e.label GLOB ? AND p.measure = ? GROUP BY 1, 2, p.layer ORDER BY 1", (rows, measure)):
            of_layer.setdefault(model, {}).setdefault(row, []).append(value)
        return {model: {row: statistics.median(values) for row, values in of.items()} for model, of in of_layer.items()}

    def after_decoding(self):
        """{(model, row): {"exact", "decoded": mean KL in nats of the last LAST tokens of LENGTH, after an exact prefill and after decoding,
        "difference", "low", "high": None of fewer than 5 windows, "p", "windows"}}"""
        if "after decoding" not in self.compared:
            self.compared["after decoding"] = {(row["model"], row["label"]): {
                **row, "difference": row["decoded"] - row["exact"], "p": sign_flips(json.loads(row["differences"]))}
                for row in self.told("query", "--db", self.database, (
                    "WITH last AS (SELECT c.model, e.label, min(e.position) AS position, c.task LIKE 'pseudo_decode/%' AS is_decoded,"
                    " l.sample, sum(l.kl) AS kl, sum(l.n_tokens) AS n FROM cell AS c JOIN experiment_cell AS e ON e.cell_key = c.key"
                    " JOIN likelihood AS l ON l.cell_key = c.key WHERE e.experiment = 'evidence_accumulated'"
                    f" AND e.label <> '{FULL}' AND l.position >= {LENGTH - LAST} GROUP BY 1, 2, 4, 5)"
                    " SELECT a.model, a.label, count(*) AS windows, sum(a.kl) / sum(a.n) AS exact, sum(b.kl) / sum(b.n) AS decoded,"
                    " clustered_low(b.kl - a.kl, a.n, a.sample) AS low, clustered_high(b.kl - a.kl, a.n, a.sample) AS high,"
                    " json_group_array(b.kl - a.kl) AS differences FROM last AS a JOIN last AS b USING (model, label, sample)"
                    " WHERE NOT a.is_decoded AND b.is_decoded GROUP BY 1, 2 ORDER BY 1, a.position"))}
        return self.compared["after decoding"]

    def errors(self, model, a, b):
        """Windows, and those in which a's mean error of K and V is smaller"""
        query = ("SELECT c.task, s.sample, s.k_error + s.v_error FROM sample AS s JOIN cell AS c ON c.key = s.cell_key JOIN experiment_cell AS e"
                 " ON e.cell_key = c.key WHERE c.model = ? AND e.label = ? AND s.status = 'ok' AND c.task LIKE 'likelihood/sources/%'")
        one, other = ({row[:2]: row[2] for row in self.rows.execute(query, (model, each))} for each in (a, b))
        both = [key for key in one if key in other and one[key] is not None and other[key] is not None]
        return len(both), sum(one[key] < other[key] for key in both), *(
            sum(each[key] for key in both) / max(1, len(both)) / 2 for each in (one, other))


def sign_flips(differences):
    """p: the share of all choices of signs whose sum is as far from zero"""
    seen = abs(sum(differences)) * (1 - 1e-12)
    flipped = [abs(sum(sign * each for sign, each in zip(signs, differences))) for signs in
               itertools.product((1, -1), repeat=len(differences))]
    return sum(each >= seen for each in flipped) / len(flipped)


def holm(ps):
    order = sorted(range(len(ps)), key=lambda i: ps[i])
    adjusted, most = [0.0] * len(ps), 0.0
    for rank, i in enumerate(order):
        most = max(most, min(1.0, (len(ps) - rank) * ps[i]))
        adjusted[i] = most
    return adjusted


def adjust(comparisons):
    """Holm over the comparisons of a page, each counted once: their p becomes the adjusted one."""
    once = list({id(each): each for each in comparisons}.values())
    for each, p in zip(once, holm([each["p"] for each in once])):
        each["p"] = p
    return len(once)


def nats(x):
    thousandths = 1000 * x
    return f"{thousandths:.3g}" if abs(thousandths) < 99.5 else f"{thousandths:,.0f}"


def points(x, low, high):
    return f"{x:+.1f} [{low:+.1f}, {high:+.1f}]"


def with_interval(value, low, high):
    return f"{nats(value)} [{nats(low)}, {nats(high)}]"


def cost_of_decoding(kl):
    return with_interval(kl["difference"], kl["low"], kl["high"]) if kl["low"] is not None else nats(kl["difference"])


def table(head, rows):
    """A Markdown table; columns whose heading ends in ":" are right-aligned"""
    if not rows:
        return []
    return ["", "| " + " | ".join(each.rstrip(":") for each in head) + " |",
            "|" + "|".join("--:" if each.endswith(":") else "---" for each in head) + "|",
            *("| " + " | ".join(row) + " |" for row in rows)]
