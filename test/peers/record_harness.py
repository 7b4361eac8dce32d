"""Records what lm-evaluation-harness asks and answers on the project's own rows: test/fixtures/harness/lm-eval.json.

    python record_harness.py MODEL_DIR FIXTURES

MODEL_DIR is a model as a Hugging Face folder, FIXTURES test/fixtures/harness. The rows become the columns of each task's
official dataset; the task's own configuration then makes prompts, continuations and metrics.
"""

import argparse
import json
import os

os.environ["HF_HUB_OFFLINE"] = "1"
import datasets
from lm_eval import simple_evaluate
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager

LETTERS = "ABCDE"
WINDOW = 48  # tokens of context for perplexities, so that texts take several windows


def arc(r):
    n = len(r["choices"])
    labels = list(LETTERS[:n])
    return {"question": r["question"], "choices": {"text": r["choices"], "label": labels}, "answerKey": labels[r["answer"]]}


def openbookqa(r):
    d = arc(r)
    d["question_stem"] = d.pop("question")
    return d


def mathqa(r):
    options = " , ".join(f"{letter} ) {choice}" for letter, choice in zip("abcde", r["choices"]))
    return {"Problem": r["question"], "options": options, "correct": "abcde"[r["answer"]]}


def medmcqa(r):
    return {"question": r["question"], "cop": r["answer"], **{f"op{x}": c for x, c in zip("abcd", r["choices"])}}


# task here -> (task there, local folder, split, row converter)
TASKS = {
    "arc_easy": ("arc_easy", "arc_easy", "test", arc),
    "arc_challenge": ("arc_challenge", "arc_challenge", "test", arc),
    "openbookqa": ("openbookqa", "openbookqa", "test", openbookqa),
    "piqa": ("piqa", "piqa", "validation", lambda r: {"goal": r["question"], "sol1": r["choices"][0], "sol2": r["choices"][1], "label": r["answer"]}),
    "hellaswag": ("hellaswag", "hellaswag", "validation", lambda r: {"query": r["question"], "choices": r["choices"], "label": str(r["answer"])}),
    "winogrande": ("winogrande", "winogrande", "validation", lambda r: {"sentence": r["question"], "option1": r["choices"][0], "option2": r["choices"][1], "answer": str(r["answer"] + 1)}),
    "medmcqa": ("medmcqa", "medmcqa", "test", medmcqa),
    "commonsense_qa": ("commonsense_qa", "commonsense_qa", "validation", arc),
    "mathqa": ("mathqa", "mathqa", "test", mathqa),
    "boolq": ("boolq", "boolq", "validation", lambda r: {"passage": r["passage"], "question": r["question"], "label": r["answer"]}),
    "truthfulqa_mc1": ("truthfulqa_mc1", "truthfulqa", "mc1_test", lambda r: {"question": r["question"], "mc1_targets": {"choices": r["choices"]}}),
    "rte": ("rte", "rte", "validation", lambda r: {"sentence1": r["premise"], "sentence2": r["hypothesis"], "label": r["label"]}),
    "sst2": ("sst2", "sst2", "validation", lambda r: {"sentence": r["text"], "label": r["label"]}),
    **{f"mmlu_{s}": (f"mmlu_{s}", "mmlu", "test", lambda r: r) for s in ("anatomy", "elementary_mathematics", "high_school_biology")},
}


def read(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f if line.strip()]


def config(name, root, shots):
    there, folder, split, convert = TASKS[name]
    subject = name[len("mmlu_"):] if name.startswith("mmlu_") else None

    def rows(file):
        mine = [r for r in read(os.path.join(root, folder, f"{file}.jsonl")) if subject in (None, r.get("subject"))]
        return datasets.Dataset.from_list([convert(r) for r in mine])

    def load(**_):
        parts = {"test": rows(split)}
        if subject:
            parts["dev"] = rows("dev")
        return datasets.DatasetDict(parts)

    out = {"task": there, "custom_dataset": load, "training_split": None, "validation_split": None, "test_split": "test", "num_fewshot": shots}
    if name == "hellaswag":
        out["process_docs"] = None
    if name in ("rte", "sst2", "boolq"):
        out["metric_list"] = [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}]
    return out


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model_dir")
    ap.add_argument("fixtures")
    a = ap.parse_args()
    lm = HFLM(pretrained=a.model_dir, device="cpu", dtype="float32", batch_size=1)
    recorded = []
    mmlu = [n for n in TASKS if n.startswith("mmlu_")]
    chats = (
        (0, ["arc_easy", "winogrande", "medmcqa"], {"chat": "single"}),
        (1, mmlu, {"chat": "single", "system": "Answer with a letter."}),
        (1, mmlu, {"chat": "multiturn"}),
        (1, mmlu, {"system": "Answer with a letter. "}),
    )
    for shots, names, chat in ((0, list(TASKS), {}), (1, mmlu, {}), *chats):
        res = simple_evaluate(
            apply_chat_template="chat" in chat,
            fewshot_as_multiturn=chat.get("chat") == "multiturn",
            system_instruction=chat.get("system"),
            model=lm,
            tasks=[{"group": "local", "task": [config(n, a.fixtures, shots) for n in names]}],
            task_manager=TaskManager(),
            log_samples=True,
        )
        for n in names:
            there = TASKS[n][0]
            docs = sorted(res["samples"][there], key=lambda s: s["doc_id"])
            scores = {m.split(",")[0]: v for m, v in res["results"][there].items() if m.split(",")[0] in ("acc", "acc_norm", "acc_stderr", "acc_norm_stderr")}
            subject = {"topic": n[len("mmlu_"):]} if n.startswith("mmlu_") else {}
            recorded.append(
                {
                    "task": "mmlu" if subject else n,
                    **subject,
                    "shots": shots,
                    **chat,
                    **{m: v if isinstance(v, (int, float)) and v == v else None for m, v in scores.items()},
                    "docs": [
                        [{"context": s_args[0], "continuation": s_args[1], "logprob": float(ll), "is_greedy": bool(g)} for s_args, (ll, g) in zip(s["arguments"], s["filtered_resps"])]
                        for s in docs
                    ],
                }
            )
    lm._max_length = WINDOW
    res = simple_evaluate(
        model=lm,
        tasks=[{"group": "local", "task": [{"task": "wikitext", "custom_dataset": lambda **_: datasets.DatasetDict({"test": datasets.Dataset.from_list(read(os.path.join(a.fixtures, "wikitext.jsonl")))}), "training_split": None, "validation_split": None}]}],
        task_manager=TaskManager(),
        log_samples=True,
    )
    docs = sorted(res["samples"]["wikitext"], key=lambda s: s["doc_id"])
    wikitext = {
        "window": WINDOW,
        **{m.split(",")[0]: v for m, v in res["results"]["wikitext"].items() if isinstance(v, float)},
        "docs": [{"text": s["arguments"][0][0], "logprob": s["filtered_resps"][0]} for s in docs],
    }
    lm._max_length = None
    res = simple_evaluate(
        model=lm,
        tasks=[{"group": "local", "task": [{"task": "nq_open", "custom_dataset": lambda **_: datasets.DatasetDict({"test": datasets.Dataset.from_list([{"question": r["question"], "answer": r["answers"]} for r in read(os.path.join(a.fixtures, "nq_open", "validation.jsonl"))])}), "training_split": None, "validation_split": None, "test_split": "test", "num_fewshot": 0}]}],
        task_manager=TaskManager(),
        log_samples=True,
    )
    docs = sorted(res["samples"]["nq_open"], key=lambda s: s["doc_id"])
    nq_open = {
        **{m.split(",")[0]: v for m, v in res["results"]["nq_open"].items() if isinstance(v, float)},
        "docs": [{"context": s["arguments"][0][0], "text": s["resps"][0][0], "exact_match": s["exact_match"]} for s in docs],
    }
    with open(os.path.join(a.fixtures, "lm-eval.json"), "w", encoding="utf-8") as f:
        json.dump({"source": "lm-evaluation-harness 0.4.13, float32, batch 1: test/peers/record_harness.py", "tasks": recorded, "wikitext": wikitext, "nq_open": nq_open}, f, ensure_ascii=False, indent=1)
        f.write("\n")


main()
