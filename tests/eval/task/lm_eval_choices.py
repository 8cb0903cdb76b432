"""lm_eval_choices.py PROGRAM: lm-eval's own evaluator and writer on made-up questions and likelihoods; `kvc score` of its
samples gives its acc and acc_norm, question by question. Exits 77 where lm-eval or datasets is absent."""

import glob
import json
import os
import random
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"
try:
    import datasets  # noqa: F401, lm-eval reads the questions with it
    from lm_eval import simple_evaluate
    from lm_eval.api.model import LM
    from lm_eval.loggers import EvaluationTracker
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

METRICS = [{"metric": "acc"}, {"metric": "acc_norm"}]
LETTERS = "aeé 漢 s, 𝄞t"  # one to four bytes each
TASKS = {  # of lm-eval, by the task of ours whose rule it is; targets are a number, and a choice's text
    "piqa/validation": {"doc_to_text": "Question: {{goal}}\nAnswer:", "doc_to_target": "label",
                        "doc_to_choice": "{{[choices[0], choices[1]]}}", "metric_list": METRICS},
    "hellaswag/validation": {"doc_to_text": "{{goal}}", "doc_to_target": "{{choices[label]}}",
                             "doc_to_choice": "{{choices}}", "metric_list": METRICS},
    "lambada/openai": {"doc_to_text": "{{goal}}", "doc_to_target": "{{' ' + choices[0]}}",
                       "output_type": "loglikelihood", "metric_list": [{"metric": "acc"}]},
}


class MadeUp(LM):
    """Likelihoods that go with the length, so that acc and acc_norm choose differently."""

    def loglikelihood(self, requests, **_):
        made = random.Random(3)
        return [(-round(len(r.args[1]) ** made.uniform(0.5, 1.2), 3), made.random() < 0.5) for r in requests]

    def loglikelihood_rolling(self, requests, **_):
        raise NotImplementedError

    def generate_until(self, requests, **_):
        raise NotImplementedError


def questions(n):
    made = random.Random(7)
    for i in range(n):
        texts = ["".join(made.choice(LETTERS) for _ in range(made.randint(3, 30))).strip() + f" {j}" for j in range(4)]
        yield {"goal": f"What of {i}?", "choices": texts, "label": made.randrange(2)}


def samples_of(task, config, folder):
    data = os.path.join(folder, "data.jsonl")
    with open(data, "w") as file:
        file.writelines(json.dumps(question) + "\n" for question in questions(60))
    name = task.replace("/", "_")
    config = {"task": name, "dataset_path": "json", "dataset_kwargs": {"data_files": {"validation": data}},
              "validation_split": "validation", "output_type": "multiple_choice", **config}
    results = simple_evaluate(model=MadeUp(), tasks=[config], log_samples=True, bootstrap_iters=0)
    tracker = EvaluationTracker(output_path=os.path.join(folder, name))
    samples = results.pop("samples")
    tracker.save_results_aggregated(results=results, samples=samples)
    tracker.save_results_samples(task_name=name, samples=samples[name])
    return results["results"][name], glob.glob(os.path.join(folder, name, "**", "samples_*.jsonl"), recursive=True)[0]


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HF_HOME"] = folder
        for task, config in TASKS.items():
            results, file = samples_of(task, config, folder)
            with open(file) as lines:
                samples = [json.loads(line) for line in lines]
            for metric in [m["metric"] for m in config["metric_list"]]:
                ours = "greedy" if task == "lambada/openai" else metric
                run = subprocess.run([sys.argv[1], "score", task, file, "--json", "--extractor", ours],
                                     check=True, capture_output=True, text=True)
                scores = json.loads(run.stdout)
                theirs = [sample[metric] for sample in sorted(samples, key=lambda sample: sample["doc_id"])]
                assert scores["per_sample"] == theirs, (task, metric)
                mean = results[f"{metric},none"]
                assert abs(scores["score"] / 100 - mean) < 1e-12 and 0 < mean < 1, (task, metric, mean)
                print(f"{task} {metric}: {mean:.4f} of {scores['n']}, both")


main()
