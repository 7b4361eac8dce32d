'use strict';
// Training, side by side with PyTorch + PEFT: the same model, rows, batches and first adapter, in alternating rounds.
//
//   npm run build
//   VENV/bin/pip install torch transformers peft gguf
//   node test/peers/compare-training.cjs VENV/bin/python PEERS HF_MODEL --data TRAIN.jsonl --valid VALID.jsonl [--rounds 3] [--batch 16] [--inner 3] [--steps 3]
//
// PEERS holds peft_step.py and torch_calm.py; HF_MODEL is the model as a Hugging Face folder (convert_smollm2.py makes it).
// Prints a Markdown table: seconds of a LoRA step and of an outer iteration (medians over steps and rounds), peak memory.
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { parseArgs } = require('node:util');
const { median, run } = require('./run.cjs');

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    data: { type: 'string' },
    valid: { type: 'string' },
    rounds: { type: 'string', default: '3' },
    batch: { type: 'string', default: '16' },
    inner: { type: 'string', default: '3' },
    steps: { type: 'string', default: '3' },
  },
});
const [python, peers, model] = positionals;

const temporary = fs.mkdtempSync(path.join(os.tmpdir(), 'calm-compare-'));
const rows = ['--data', values.data, '--batch', values.batch, '--steps', values.steps];
const kinds = {
  lora: { script: 'peft_step.py', more: [] },
  calm: { script: 'torch_calm.py', more: ['--val-data', values.valid, '--inner-steps', values.inner] },
};
console.log(
  '| | seconds, calm-lab | PyTorch | ratio by step | median ratio | first / median | largest loss difference | peak MiB, ours / theirs |',
);
console.log('| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: |');
for (const [kind, { script, more }] of Object.entries(kinds)) {
  const [ours, theirs, firsts, peaks] = [[], [], [], [[], []]];
  let difference = 0;
  for (let round = 0; round < Number(values.rounds); round++) {
    const adapter = path.join(temporary, `${kind}-${round}`);
    const peer = run(python, [path.join(peers, script), model, ...rows, ...more, '--save-init', adapter]);
    const mine = run(process.execPath, [
      path.join(__dirname, 'train_steps.cjs'),
      ...['--kind', kind, '--adapter', adapter, '--inner', values.inner, ...rows],
      ...(kind === 'calm' ? ['--valid', values.valid] : []),
    ]);
    const timed = mine.steps.slice(1);
    ours.push(...timed.map((step) => step.seconds));
    theirs.push(...peer.steps.filter((step) => step.timed).map((step) => step.seconds));
    firsts.push(mine.steps[0].seconds / median(timed.map((step) => step.seconds)));
    peaks[0].push(mine.peak_mib);
    peaks[1].push(peer.peak_rss_mib);
    mine.steps.forEach(({ loss }, k) => {
      difference = Math.max(difference, Math.abs(loss - (peer.steps[k].loss ?? peer.steps[k].train_loss)));
    });
  }
  const ratios = ours.map((seconds, i) => seconds / theirs[i]);
  console.log(
    `| ${kind === 'lora' ? 'LoRA step' : `outer iteration, T = ${values.inner}`} | ${median(ours).toFixed(2)} | ${median(theirs).toFixed(2)} | ` +
      `${ratios.map((r) => r.toFixed(2)).join(', ')} | ${median(ratios).toFixed(2)} | ${median(firsts).toFixed(2)} | ` +
      `${difference.toExponential(1)} | ${Math.max(...peaks[0]).toFixed(0)} / ${Math.max(...peaks[1]).toFixed(0)} |`,
  );
}
fs.rmSync(temporary, { recursive: true });
