'use strict';
// Our side of compare-training.cjs, one process: LoRA steps or CALM's outer iterations on rows in file order, as
// ../shared/peers/peft_step.py and torch_calm.py take them. Prints one JSON object. By itself, for example
// `--kind lora --data F.jsonl --batch 2 --steps 200`, it shows whether memory stays flat.
const path = require('node:path');
const { parseArgs } = require('node:util');
const { peakMib } = require('./run.cjs');

const { values } = parseArgs({
  options: {
    kind: { type: 'string' }, // lora or calm
    data: { type: 'string' },
    valid: { type: 'string' },
    adapter: { type: 'string' }, // where to start; a new one by default
    weights: { type: 'string', default: 'float32' }, // or stored, nf4
    batch: { type: 'string', default: '16' },
    inner: { type: 'string', default: '3' },
    steps: { type: 'string', default: '3' },
    profile: { type: 'boolean' },
  },
});
const build = (file) => require(path.join(__dirname, '../../.build', file));
const { loadModel, Random, tf, tree } = build('index.js');
const { createAdapter, PAPER_LORA, readAdapter } = build('model/index.js');
const { readTraining, toExamples } = build('train/examples.js');
const { objective } = build('calibrate/objective.js');
const { identityHead, clipHead } = build('calibrate/head.js');
const { bomeStep, addScaled } = build('train/bome.js');
const { optimise, zeroMoments } = build('train/optimiser.js');

async function main() {
  build('base/progress.js').setQuiet(true);
  const model = await loadModel('smollm2-135m-instruct', { weights: values.weights });
  const { config, blocks } = values.adapter
    ? readAdapter(values.adapter, model.config)
    : createAdapter(model.config, { ...PAPER_LORA, dropout: 0 }, Random.seed(0));
  const options = { format: 'letter', maxPositions: 1024 };
  const examplesOf = async (file) => toExamples(await readTraining(file), model.tokenizer, options).examples;
  const train = await examplesOf(values.data);
  const validation = values.valid ? await examplesOf(values.valid) : [];
  const [size, inner, steps] = [Number(values.batch), Number(values.inner), Number(values.steps)];
  const batchOf = (rows, k) => Array.from({ length: size }, (_, j) => rows[(k * size + j) % rows.length]);
  const stateOf = (head, theta) => ({ head, adapter: { config, blocks: theta } });
  let [head, theta] = [identityHead(model.config.vocabSize), blocks];
  let moments = values.kind === 'lora' ? zeroMoments(theta) : undefined;
  const stats = new Map();
  const replace = (old, now) => (tree.dispose(old), now);
  const out = [];
  for (let k = 0; k <= steps; k++) {
    const [rows, upper] = [batchOf(train, k), values.valid ? batchOf(validation, k) : []];
    if (k === 1 && values.profile) profile(stats);
    const [started, cpu] = [performance.now(), process.cpuUsage()];
    let loss;
    let lambda;
    if (values.kind === 'lora') {
      const found = objective('cross-entropy', model, stateOf(head, theta), rows, { alpha: false, theta: true });
      const rates = { step: k + 1, rate: 1e-4, weightDecay: 0.02 };
      const next = optimise({ optimiser: 'adamw' }, theta, found.theta, moments, rates);
      tree.dispose(found.theta);
      theta = replace(theta, next.parameters);
      moments = replace(moments, next.moments);
      ({ loss } = found);
    } else {
      const problem = {
        lower: (alpha, t, _batch, wanted) => objective('cross-entropy', model, stateOf(alpha, t), rows, wanted),
        upper: (alpha, t) => objective('entropy', model, stateOf(alpha, t), upper, { alpha: true, theta: true }),
      };
      const found = bomeStep(problem, head, theta, { innerSteps: inner, innerRate: 1e-2, gamma: 0.5 });
      const moved = addScaled(head, found.direction.alpha, -1e-2);
      head = replace(head, clipHead(moved));
      tree.dispose(moved);
      const stepped = addScaled(theta, found.direction.theta, -1e-2);
      theta = replace(
        theta,
        tree.map(stepped, (leaf) => tf.clipByValue(leaf, -10, 10)),
      );
      tree.dispose(stepped);
      tree.dispose(found.direction);
      [loss] = found.innerLosses;
      ({ lambda } = found);
    }
    const seconds = (performance.now() - started) / 1000;
    const used = process.cpuUsage(cpu);
    out.push({
      seconds,
      cpus: (used.user + used.system) / 1e6 / seconds,
      loss,
      lambda,
      tensors: tf.memory().numTensors,
      rss_mib: process.memoryUsage.rss() / 2 ** 20,
    });
  }
  for (const [op, [n, ms]] of [...stats].sort((a, b) => b[1][1] - a[1][1]).slice(0, 20)) {
    console.error(op.padEnd(24), String(n).padStart(6), (ms / steps).toFixed(0), 'ms a step');
  }
  console.log(JSON.stringify({ steps: out, peak_mib: peakMib() }));
}

/** Sums up the time of every TensorFlow op. */
function profile(stats) {
  const backend = tf.backend();
  const run = backend.executeSingleOutput.bind(backend);
  backend.executeSingleOutput = (op, ...rest) => {
    const started = performance.now();
    const result = run(op, ...rest);
    const entry = stats.get(op) ?? [0, 0];
    stats.set(op, [entry[0] + 1, entry[1] + performance.now() - started]);
    return result;
  };
}

void main();
