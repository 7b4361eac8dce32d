"""What one would write with transformers: multiple-choice questions by letter and by cloze, batched, sorted by length.

    python hf_evaluation.py MODEL.gguf QUESTIONS.jsonl --scoring letter|cloze [--limit N] [--batch B]

Loads the GGUF through transformers (float32), scores, and prints one JSON object: seconds (model loading excluded),
questions, and every option's log-probability. Cloze scores each (question, option) pair as lm-evaluation-harness does.
"""

import argparse
import json
import os
import sys
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def batches(lengths, size):
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    return [order[i : i + size] for i in range(0, len(order), size)]


def letter_prompt(row):
    options = "".join(f"\n{LETTERS[i]}. {choice}" for i, choice in enumerate(row["choices"]))
    return f"{row['question']}{options}\nAnswer:"


@torch.inference_mode()
def by_letter(model, tokenizer, rows, size):
    ids = [tokenizer(letter_prompt(row), add_special_tokens=False)["input_ids"] for row in rows]
    letters = torch.tensor([tokenizer(f" {letter}", add_special_tokens=False)["input_ids"][0] for letter in LETTERS])
    scores = [None] * len(rows)
    for batch in batches([len(i) for i in ids], size):
        width = max(len(ids[i]) for i in batch)
        # Left padding, so that the last position of every row is the one asked for.
        input_ids = torch.tensor([[0] * (width - len(ids[i])) + ids[i] for i in batch])
        mask = torch.tensor([[0] * (width - len(ids[i])) + [1] * len(ids[i]) for i in batch])
        logits = model(input_ids=input_ids, attention_mask=mask, logits_to_keep=1).logits[:, -1]
        for row, i in enumerate(batch):
            n = len(rows[i]["choices"])
            scores[i] = torch.log_softmax(logits[row, letters[:n]].double(), -1).tolist()
    return scores


@torch.inference_mode()
def by_cloze(model, tokenizer, rows, size):
    pairs = []
    for r, row in enumerate(rows):
        context = f"Question: {row['question']}\nAnswer:"
        head = tokenizer(context, add_special_tokens=False)["input_ids"]
        for c, choice in enumerate(row["choices"]):
            both = tokenizer(f"{context} {choice}", add_special_tokens=False)["input_ids"]
            pairs.append((r, c, len(head), both))
    scores = [[0.0] * len(row["choices"]) for row in rows]
    for batch in batches([len(pair[3]) for pair in pairs], size):
        mine = [pairs[i] for i in batch]
        width = max(len(both) - 1 for *_, both in mine)
        input_ids = torch.tensor([both[:-1] + [0] * (width - len(both) + 1) for *_, both in mine])
        mask = torch.tensor([[1] * (len(both) - 1) + [0] * (width - len(both) + 1) for *_, both in mine])
        # The output projection runs on the positions that are scored, not on all.
        hidden = model.model(input_ids=input_ids, attention_mask=mask).last_hidden_state
        at = [(j, t) for j, (_, _, head, both) in enumerate(mine) for t in range(head - 1, len(both) - 1)]
        rows_, columns = zip(*at)
        logprobs = torch.log_softmax(model.lm_head(hidden[list(rows_), list(columns)]), -1)
        labels = torch.tensor([mine[j][3][t + 1] for j, t in at])
        found = logprobs.gather(1, labels[:, None])[:, 0].tolist()
        for (j, _), value in zip(at, found):
            scores[mine[j][0]][mine[j][1]] += value
    return scores


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("questions")
    parser.add_argument("--scoring", choices=["letter", "cloze"], required=True)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--batch", type=int, default=16)
    args = parser.parse_args()
    rows = [json.loads(line) for line in open(args.questions) if line.strip()][: args.limit]
    folder, file = os.path.split(os.path.abspath(args.model))
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32).eval()
    run = by_letter if args.scoring == "letter" else by_cloze
    run(model, tokenizer, rows[:4], args.batch)  # warm-up
    started = time.perf_counter()
    scores = run(model, tokenizer, rows, args.batch)
    seconds = time.perf_counter() - started
    peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]
    print(json.dumps({"seconds": seconds, "questions": len(rows), "peak_mib": int(peak) // 1024, "scores": scores}))


if __name__ == "__main__":
    sys.exit(main())
