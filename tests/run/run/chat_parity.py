"""Chat templates against transformers: its apply_chat_template, a model's own template and our named formats give the
same text and ids.

usage: chat_parity.py PROGRAM; the real tokenizers come from $KVC_DATA/tokenizers. Exit code 77 where a package or the
tokenizers are absent. The Jinja templates are this test's own, written from the formats' public descriptions in the style
of each family's own template; SmolLM2's is the one of the model's file.
"""
import json
import os
import subprocess
import sys
import tempfile

try:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast
except ImportError as error:
    print(f"SKIP: {error}")
    sys.exit(77)

SYSTEM_FIRST = """{%- if messages[0]['role'] == 'system' -%}
  {%- set system = messages[0]['content'] -%}{%- set turns = messages[1:] -%}
{%- else -%}{%- set turns = messages -%}{%- endif -%}"""
LLAMA2 = SYSTEM_FIRST + """{%- for m in turns -%}
  {%- if loop.first and system is defined -%}{%- set text = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' + m['content'] -%}
  {%- else -%}{%- set text = m['content'] -%}{%- endif -%}
  {{- bos_token + '[INST] ' + text.strip() + ' [/INST]' -}}
{%- endfor -%}"""
MISTRAL = SYSTEM_FIRST + """{{- bos_token -}}{%- for m in turns -%}
  {{- OPEN + (system + '\\n\\n' if system is defined else '') + m['content'] + CLOSE -}}
{%- endfor -%}"""
HEADERS = """{%- for m in turns -%}
  {{- '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n' + m['content'] | trim + '<|eot_id|>' -}}
{%- endfor -%}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}"""
LLAMA3 = "{%- set turns = messages -%}{{- bos_token -}}" + HEADERS
LLAMA3_1 = SYSTEM_FIRST + """{%- if date_string is not defined -%}{%- set date_string = "26 Jul 2024" -%}{%- endif -%}
{{- bos_token + '<|start_header_id|>system<|end_header_id|>\\n\\n' -}}
{{- "Cutting Knowledge Date: December 2023\\n" -}}{{- "Today Date: " + date_string + "\\n\\n" -}}
{{- (system | default('')) | trim + '<|eot_id|>' -}}""" + HEADERS
VICUNA = SYSTEM_FIRST + """{{- bos_token -}}
{{- system if system is defined else "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, and polite answers to the user's questions." -}}
{%- for m in turns -%}{{- ' USER: ' + m['content'] + ' ASSISTANT:' -}}{%- endfor -%}"""
CHATML = """{%- if DEFAULT and messages[0]['role'] != 'system' -%}{{- '<|im_start|>system\\n' + DEFAULT + '<|im_end|>\\n' -}}{%- endif -%}
{%- for m in messages -%}{{- '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n' -}}{%- endfor -%}
{{- '<|im_start|>assistant\\n' -}}"""

SMOLLM2 = """{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system
You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>
' }}{% endif %}{{'<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}"""


def mistral(opening, closing):
    return MISTRAL.replace("OPEN", opening).replace("CLOSE", closing)


def chatml(default):
    return CHATML.replace("DEFAULT", f"'{default}'")


# name: tokenizer, special tokens put into it, its BOS, the template
FORMATS = {
    "llama2": ("llama2", [], "<s>", LLAMA2),
    "mistral": ("llama2", [], "<s>", mistral("'[INST] '", "' [/INST]'")),
    "mistral_blank": ("llama2", [], "<s>", mistral('" [INST] "', '" [/INST]"')),
    "mistral_v3": ("llama2", ["[INST]", "[/INST]"], "<s>", mistral('"[INST] "', '"[/INST]"')),
    "vicuna": ("llama2", [], "<s>", VICUNA),
    "llama3": ("llama3", [], "<|begin_of_text|>", LLAMA3),
    "llama3_1": ("llama3", [], "<|begin_of_text|>", LLAMA3_1),
    "chatml": ("neox", ["<|im_start|>", "<|im_end|>"], None, chatml("")),
    "qwen2": ("neox", ["<|im_start|>", "<|im_end|>"], None, chatml("You are a helpful assistant.")),
    "smollm2": ("neox", ["<|im_start|>", "<|im_end|>"], None, SMOLLM2),
    "qwen2_5": ("neox", ["<|im_start|>", "<|im_end|>"], None,
                chatml("You are Qwen, created by Alibaba Cloud. You are a helpful assistant.")),
}
SYSTEMS = ["", "Answer in one word.", "  be brief \n", "{user} {system}"]
PLAIN = ["What is 1 + 1?", " \n padded\t \n", "\u3000wide\u00a0", "你好，世界 🙂", "{user} {{ bos_token }} {%- x %}", "a\n\n\nb", "USER: x ASSISTANT: y"]
MARKED = ["[INST] x [/INST]", "a<|im_end|>\n<|im_start|>assistant\nb", "x<|eot_id|>y", "<s>", "a <s> b</s>", "<<SYS>>\nno\n<</SYS>>", "<|begin_of_text|>"]


# Templates that no named format is: a model's own way with what transformers hands to a template.
OWN = {
    "thinking": ("neox", ["<|im_start|>", "<|im_end|>"], None, CHATML.replace("DEFAULT", "''") + """{%- if enable_thinking is defined and not enable_thinking -%}{{- '<think>\\n\\n</think>\\n\\n' -}}{%- endif -%}"""),
    "special": ("llama2", [], "<s>", """{{ bos_token }}{{ eos_token }}|{{ pad_token is defined }}|{{ tools is none }}|{{ documents }}|{{ add_generation_prompt }}|{{ messages | tojson }}"""),
    "no_bos": ("llama2", [], "<s>", """{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}\n{% endfor %}"""),
}


def ask(program, folder, arguments, cases):
    run = subprocess.run([program, folder, *arguments], input="\n".join(map(json.dumps, cases)) + "\n", text=True, encoding="utf-8", stdout=subprocess.PIPE)
    return [json.loads(line) for line in run.stdout.split("\n") if line] if run.returncode == 0 else []


def check(program, name, data):
    tokenizer_name, added, bos, jinja = {**FORMATS, **OWN}[name]
    tokenizer = Tokenizer.from_file(os.path.join(data, "tokenizers", tokenizer_name, "tokenizer.json"))
    tokenizer.add_special_tokens(added)
    eos = "</s>" if tokenizer_name == "llama2" else None
    cases = [{"system": s, "user": u} for s in SYSTEMS for u in PLAIN + MARKED]
    settings = [("own", ["auto"], {})]
    if name in FORMATS:
        settings.append((name, [name], {}))
    if name == "thinking":
        settings.append(("own", ["auto", '{"enable_thinking": false}'], {"enable_thinking": False}))
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(os.path.join(folder, "tokenizer.json"))
        theirs = PreTrainedTokenizerFast(tokenizer_file=os.path.join(folder, "tokenizer.json"), bos_token=bos, eos_token=eos, chat_template=jinja)
        json.dump({"chat_template": jinja, "bos_token": bos, "eos_token": {"content": eos} if eos else None},
                  open(os.path.join(folder, "tokenizer_config.json"), "w"))
        for expected_name, arguments, options in settings:
            ours = ask(program, folder, arguments, cases)
            if len(ours) != len(cases):
                wrong.append(f"{arguments}: {len(ours)} answers to {len(cases)} prompts")
            for case, our in zip(cases, ours):
                messages = [{"role": "system", "content": case["system"]}] if case["system"] else []
                messages.append({"role": "user", "content": case["user"]})
                text = theirs.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **options)
                ids = theirs.apply_chat_template(messages, tokenize=True, add_generation_prompt=True, return_dict=False, **options)
                if our != {"name": expected_name, "text": text, "ids": ids}:
                    wrong.append(f"{arguments}, {case}\n    ours   {our}\n    theirs {text!r} {ids}")
                if bos and name in FORMATS and case["user"] in PLAIN and our["ids"].count(theirs.convert_tokens_to_ids(bos)) != 1:
                    wrong.append(f"{arguments}, {case}: BOS does not stand once in {our['ids']}")
    print(f"{name} on {tokenizer_name}: {len(cases)} prompts, {len(settings)} settings, {len(wrong)} wrong")
    return wrong


def main():
    data = os.environ.get("KVC_DATA", "")
    if not all(os.path.exists(os.path.join(data, "tokenizers", t, "tokenizer.json")) for t in ("llama2", "llama3", "neox")):
        print("SKIP: KVC_DATA/tokenizers does not hold llama2, llama3 and neox")
        sys.exit(77)
    failed = False
    for name in [*FORMATS, *OWN]:
        for message in check(sys.argv[1], name, data)[:3]:
            failed = True
            print(f"  {name}: {message}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
