'use strict';
// The evaluation harness beside lm-evaluation-harness: the same model, items and machine, in alternating rounds. Prints
// a Markdown table of answers (largest difference of a log-likelihood, is_greedy and accuracies that differ) and speed.
//
//   npm run build
//   VENV/bin/pip install lm_eval transformers torch
//   node test/peers/compare-harness.cjs VENV/bin/python PEERS HF_MODEL DATA [--limit 200] [--rounds 3] [--batch 8]
//
// PEERS holds lm_eval_local.py, DATA the tasks' rows as <task>/<split>.jsonl; HF_MODEL is SmolLM2 as a Hugging Face folder.
// Seconds are those of the evaluation, loading left out on both sides.
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { parseArgs } = require('node:util');
const { median, peakMib, run } = require('./run.cjs');

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    tasks: { type: 'string', default: 'hellaswag,arc_easy,arc_challenge,winogrande,piqa,openbookqa' },
    limit: { type: 'string', default: '200' },
    rounds: { type: 'string', default: '3' },
    batch: { type: 'string', default: '8' },
    ours: { type: 'boolean' },
  },
});
const names = values.tasks.split(',');

/** Our side, in its own process. */
async function ours(data) {
  const calm = require(path.join(__dirname, '../../.build/index.js'));
  const model = await calm.loadModel('smollm2-135m-instruct');
  const started = performance.now();
  const results = [];
  for (const name of names) {
    const task = await calm.loadTask(name, { data, limit: Number(values.limit) });
    results.push(await calm.evaluate(model, task, { scoring: 'continuation', resamples: 0 }));
  }
  const seconds = (performance.now() - started) / 1000;
  console.log(JSON.stringify({ seconds, peak_mib: peakMib(), results }));
}

function compare([python, peers, model, data]) {
  const samplesFile = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'calm-compare-')), 'samples.json');
  const common = ['--tasks', values.tasks, '--limit', values.limit];
  const rounds = Array.from({ length: Number(values.rounds) }, () => {
    const script = path.join(peers, 'lm_eval_local.py');
    const more = ['--data-dir', data, '--batch', values.batch, '--samples-out', samplesFile];
    const theirs = run(python, [script, model, ...common, ...more]);
    const mine = run(process.execPath, [__filename, '--ours', ...common, data]);
    return { theirs, mine };
  });
  const { samples, scores } = JSON.parse(fs.readFileSync(samplesFile, 'utf8'));
  console.log('| task | items | requests | largest difference | is_greedy differs | acc | acc_norm |');
  console.log('| --- | ---: | ---: | ---: | ---: | --- | --- |');
  const { mine } = rounds[0];
  for (const { task, rows, metrics } of mine.results) {
    let [difference, greedy, requests] = [0, 0, 0];
    rows.forEach(({ logprobs, is_greedy }, i) => {
      samples[task][i].requests.forEach((request, k) => {
        difference = Math.max(difference, Math.abs(request.loglikelihood - logprobs[k]));
        greedy += request.is_greedy === is_greedy[k] ? 0 : 1;
        requests++;
      });
    });
    const same = (value, theirs) =>
      theirs === undefined ? '' : value === theirs ? `${value}, same` : `${value}, ${theirs}`;
    console.log(
      `| ${task} | ${rows.length} | ${requests} | ${difference.toExponential(1)} | ${greedy} | ` +
        `${same(metrics.accuracy.value, scores[task].acc)} | ${same(metrics.acc_norm.value, scores[task].acc_norm)} |`,
    );
  }
  const ratios = rounds.map(({ theirs, mine: my }) => theirs.wall_seconds / my.seconds);
  const speed = (seconds) => (rounds[0].theirs.requests / median(seconds)).toFixed(1);
  console.log(
    `\nrequests/s: calm-lab ${speed(rounds.map((r) => r.mine.seconds))}, lm-evaluation-harness ` +
      `${speed(rounds.map((r) => r.theirs.wall_seconds))} (batch ${values.batch}); ratio by round ` +
      `${ratios.map((r) => r.toFixed(2)).join(', ')}, median ${median(ratios).toFixed(2)}; peak MiB ` +
      `${Math.max(...rounds.map((r) => r.mine.peak_mib)).toFixed(0)} / ${Math.max(...rounds.map((r) => r.theirs.peak_rss_mib)).toFixed(0)}`,
  );
}

if (values.ours) void ours(positionals[0]);
else if (positionals.length === 4) compare(positionals);
else {
  console.error('name Python, peers, model and data; the head of this file shows how');
  process.exitCode = 2;
}
