'use strict';
// Evaluation, side by side with transformers: the same questions, model and machine, in alternating rounds.
//
//   npm run build
//   python3 -m venv VENV && VENV/bin/pip install torch transformers gguf accelerate
//   node test/peers/compare-evaluation.cjs VENV/bin/python [--questions F.jsonl] [--limit N] [--rounds 3] [--batch 32]
//     [--scoring letter --scoring cloze]
//
// Seconds are of scoring alone, after a warm-up; loading the model is left out on both sides. Prints a Markdown table.
const path = require('node:path');
const { parseArgs } = require('node:util');
const { median, peakMib, run } = require('./run.cjs');

const ROOT = path.join(__dirname, '../..');
const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    questions: { type: 'string', default: path.join(ROOT, 'datasets/starter/mcq/test.jsonl') },
    limit: { type: 'string', default: '1000' },
    rounds: { type: 'string', default: '3' },
    batch: { type: 'string', default: '32' },
    scoring: { type: 'string', multiple: true, default: ['letter', 'cloze'] },
    ours: { type: 'string' },
  },
});

/** Our side, in its own process. */
async function ours(scoring) {
  const calm = require(path.join(ROOT, '.build/index.js'));
  const model = await calm.loadModel('smollm2-135m-instruct');
  const task = await calm.loadTask(values.questions, { limit: Number(values.limit) });
  const options = { scoring, resamples: 0 };
  await calm.evaluate(model, { ...task, docs: task.docs.slice(0, 4) }, options); // warm-up
  const { rows, wall_seconds: seconds } = await calm.evaluate(model, task, options);
  const scores = rows.map((row) => row.logprobs);
  console.log(JSON.stringify({ seconds, questions: rows.length, peak_mib: peakMib(), scores }));
}

function compare(python) {
  const model = path.join(ROOT, '.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf');
  const common = (scoring) => ['--scoring', scoring, '--limit', values.limit, '--batch', values.batch];
  const peer = path.join(__dirname, 'hf_evaluation.py');
  console.log(
    '| scoring | questions | calm-lab, questions/s | transformers | ratio by round | median ratio | largest difference | peak MiB, ours / theirs |',
  );
  console.log('| --- | ---: | ---: | ---: | --- | ---: | ---: | ---: |');
  for (const scoring of values.scoring) {
    const rounds = Array.from({ length: Number(values.rounds) }, () => {
      const theirs = run(python, [peer, model, values.questions, ...common(scoring)]);
      const mine = run(process.execPath, [
        __filename,
        '--ours',
        scoring,
        '--questions',
        values.questions,
        '--limit',
        values.limit,
      ]);
      return { theirs, mine, ratio: theirs.seconds / mine.seconds };
    });
    const { theirs, mine } = rounds[0];
    const difference = Math.max(
      ...mine.scores.flatMap((row, i) => row.map((s, k) => Math.abs(s - theirs.scores[i][k]))),
    );
    const speed = (side) => (mine.questions / median(rounds.map((round) => round[side].seconds))).toFixed(1);
    const ratios = rounds.map(({ ratio }) => ratio.toFixed(2));
    const peak = (side) => Math.max(...rounds.map((round) => round[side].peak_mib)).toFixed(0);
    console.log(
      `| ${scoring} | ${mine.questions} | ${speed('mine')} | ${speed('theirs')} | ${ratios.join(', ')} | ${median(ratios.map(Number))} | ${difference.toExponential(1)} | ${peak('mine')} / ${peak('theirs')} |`,
    );
  }
}

if (values.ours) void ours(values.ours);
else if (positionals[0]) compare(positionals[0]);
else {
  console.error('name the Python of an environment with transformers; the head of this file shows how to make one');
  process.exitCode = 2;
}
