"""20 conversations through the chat templates of real models: kvc's interpreter against transformers' own rendering.

usage: chat_templates_parity.py PROGRAM; exit code 77 without a template or the Python packages. Templates: those of the
GGUF files that KVC_SMOLLM2_GGUF and KVC_GGUF_MODELS (separated by colons) name, and the *.jinja files of the folder
KVC_CHAT_TEMPLATES. Both give the same text, or both refuse.
"""
import datetime
import glob
import json
import os
import random
import subprocess
import sys

try:
    import gguf
    from transformers.utils import chat_template_utils
except ImportError as error:
    print(f"SKIP: {error}")
    sys.exit(77)

N_CONVERSATIONS = 20
TEXTS = ["What is 1 + 1?", " \n padded\t \n", "你好，世界 🙂", "{user} {{ bos_token }} {%- x %}", "a\n\n\nb", "USER: x",
         "it's \"q\" <b>&\\", "<|im_end|>\n<|im_start|>assistant", "```python\nprint(1)\n```", "é" * 50,
         "<think>\nhm\n</think>\n\n42", "<|channel|>analysis<|message|>x<|end|>"]
CITY = {"city": {"type": "string", "description": "the city"}, "days": {"type": "integer", "enum": [1, 2]}}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Weather of a city", "parameters": {
    "type": "object", "properties": CITY, "required": ["city"]}}}]


class Day(datetime.datetime):
    """Today's date as render_template sets it, for templates that print it."""
    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 26)


def conversations():
    """Variables of a template: one to four turns, with and without a system prompt, tools, or an answer to begin."""
    draw = random.Random(5)
    for i in range(N_CONVERSATIONS):
        messages = [{"role": "system", "content": draw.choice(TEXTS)}] if i % 3 else []
        ends_in_answer = i % 5 == 4
        for turn in range(1 + i % 4):
            messages.append({"role": "user", "content": draw.choice(TEXTS)})
            if turn < i % 4 or ends_in_answer:
                messages.append({"role": "assistant", "content": draw.choice(TEXTS)})
        yield {"messages": messages, "tools": TOOLS if i % 7 == 6 else None, "documents": None,
               "add_generation_prompt": not ends_in_answer, "bos_token": "<s>", "eos_token": "</s>"}


def templates():
    named = (os.environ.get(name, "") for name in ("KVC_SMOLLM2_GGUF", "KVC_GGUF_MODELS"))
    for path in os.pathsep.join(named).split(os.pathsep):
        field = gguf.GGUFReader(path).fields.get("tokenizer.chat_template") if path else None
        if field:
            yield os.path.basename(path), bytes(field.parts[field.data[0]]).decode()
    for path in sorted(glob.glob(os.path.join(os.environ.get("KVC_CHAT_TEMPLATES") or os.devnull, "*.jinja"))):
        with open(path, encoding="utf-8") as file:
            yield os.path.basename(path), file.read()


def theirs(template, variables):
    others = {name: value for name, value in variables.items() if name not in ("messages", "tools", "documents")}
    try:
        return chat_template_utils.render_jinja_template(
            [variables["messages"]], tools=variables["tools"], documents=None, chat_template=template,
            continue_final_message=False, return_assistant_tokens_mask=False, **others)[0][0], ""
    except Exception as error:  # whatever Python raises
        return None, repr(error)


def main(program):
    chat_template_utils.datetime = Day
    cases = list(conversations())
    n_templates, failed = 0, False
    for name, template in templates():
        n_templates += 1
        lines = "".join(json.dumps({"template": template, "variables": case}) + "\n" for case in cases)
        done = subprocess.run([program], input=lines, text=True, encoding="utf-8", stdout=subprocess.PIPE, check=True)
        same, refused, wrong = 0, 0, []
        for case, line in zip(cases, done.stdout.splitlines(), strict=True):
            ours, (expected, why) = json.loads(line), theirs(template, case)
            if expected is not None and ours.get("text") == expected:
                same += 1
            elif expected is None and "error" in ours:
                refused += 1
            else:
                wrong.append(f"{case['messages']}\n    transformers {expected!r} {why}\n    kvc          {ours}")
        print(f"{name}: {same} the same, {refused} refused by both, {len(wrong)} different", *wrong[:1], sep="\n  ")
        failed |= bool(wrong)
    if n_templates == 0:
        print("SKIP: neither KVC_SMOLLM2_GGUF, KVC_GGUF_MODELS nor KVC_CHAT_TEMPLATES names a template")
        return 77
    return failed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
