'use strict';
// Sampling many answers to each question beside transformers' generate(): the same model, questions and machine, in
// alternating rounds. Prints generated tokens a second (end tokens counted), their ratio, and peak memory.
//
//   npm run build
//   VENV/bin/pip install transformers torch
//   node test/peers/compare-sampling.cjs VENV/bin/python PEERS HF_MODEL QUESTIONS.jsonl [--questions 20] [--rounds 3] [--batch 1]
//
// PEERS holds hf_sample.py; HF_MODEL is SmolLM2 as a Hugging Face folder; --batch is theirs, questions in one generate().
const path = require('node:path');
const { parseArgs } = require('node:util');
const { median, peakMib, run } = require('./run.cjs');

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    questions: { type: 'string', default: '20' },
    samples: { type: 'string', default: '20' },
    tokens: { type: 'string', default: '16' },
    rounds: { type: 'string', default: '3' },
    batch: { type: 'string', default: '1' },
    ours: { type: 'boolean' },
  },
});

/** Our side, in its own process. */
async function ours(file) {
  const calm = require(path.join(__dirname, '../../.build/index.js'));
  const model = await calm.loadModel('smollm2-135m-instruct');
  const { questions } = await calm.readOpenQuestions(file, { limit: Number(values.questions) });
  const prompts = questions.map(({ question }) => `Question: ${question}\nAnswer:`);
  const options = { samples: Number(values.samples), maxNewTokens: Number(values.tokens), temperature: 1 };
  calm.generateTexts(model, prompts.slice(0, 1), { ...options, samples: 2 }); // the engine's first pass is slower
  const started = performance.now();
  const generated = calm.generateTexts(model, prompts, options);
  const seconds = (performance.now() - started) / 1000;
  // As theirs: up to and including the end token, whose log p is there too.
  const tokens = generated.reduce((sum, { logprobs }) => sum + logprobs.flat().length, 0);
  console.log(JSON.stringify({ seconds, tokens, peak_mib: peakMib() }));
}

function compare([python, peers, model, questions]) {
  const rounds = Array.from({ length: Number(values.rounds) }, () => {
    const more = ['--samples', values.samples, '--max-new-tokens', values.tokens, '--question-batch', values.batch];
    const script = path.join(peers, 'hf_sample.py');
    const theirs = run(python, [script, model, '--data', questions, '--questions', values.questions, ...more]);
    const same = ['--samples', values.samples, '--tokens', values.tokens, '--questions', values.questions];
    return { theirs, mine: run(process.execPath, [__filename, '--ours', ...same, questions]) };
  });
  const mine = rounds.map((r) => r.mine.tokens / r.mine.seconds);
  const theirs = rounds.map((r) => r.theirs.generated_tokens_per_second);
  const ratios = rounds.map((_, i) => mine[i] / theirs[i]);
  const shown = (list, digits) => list.map((x) => x.toFixed(digits)).join(', ');
  console.log(
    `tokens/s: calm-lab ${shown(mine, 0)}; transformers (${values.batch} questions a batch) ${shown(theirs, 0)}; ` +
      `ratio ${shown(ratios, 2)}, median ${median(ratios).toFixed(2)}; tokens ${rounds[0].mine.tokens} / ` +
      `${rounds[0].theirs.generated_tokens}; peak MiB ${Math.max(...rounds.map((r) => r.mine.peak_mib)).toFixed(0)} / ` +
      `${Math.max(...rounds.map((r) => r.theirs.peak_rss_mib)).toFixed(0)}`,
  );
}

if (values.ours) void ours(positionals[0]);
else if (positionals.length === 4) compare(positionals);
else {
  console.error('name Python, peers, model and questions; the head of this file shows how');
  process.exitCode = 2;
}
