"""Logits of a model with a LoRA adapter by PEFT: python peft_logits.py MODEL_DIR ADAPTER_DIR IDS.json OUT.json [--save DIR]

IDS.json is a list of token id lists. OUT.json gets, for each, the logits of the last token. --save writes the adapter back
as PEFT writes it, after adding 0.01 to every matrix.
"""
import json
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

model_dir, adapter_dir, ids_file, out_file, *rest = sys.argv[1:]
base = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32, attn_implementation="eager")
model = PeftModel.from_pretrained(base, adapter_dir).eval()
if rest:
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_" in name:
                p += 0.01
    model.save_pretrained(rest[1])
with open(ids_file) as f:
    texts = json.load(f)
with torch.no_grad():
    out = [model(input_ids=torch.tensor([ids])).logits[0, -1].tolist() for ids in texts]
with open(out_file, "w") as f:
    json.dump(out, f)
