'use strict';
// Post-hoc calibrators beside scikit-learn, netcal, betacal and SciPy: the same generated logits and machine, in
// alternating rounds. Prints a Markdown table of seconds and of the mean NLL of the fitted rows.
//
//   npm run build
//   VENV/bin/pip install numpy scipy scikit-learn torch netcal betacal
//   node test/peers/compare-posthoc.cjs VENV/bin/python [--rows 100000] [--classes 5] [--rounds 3]
//
// "fit" is what the packages' fit does, from arrays that are checked and softmaxed already, after a first fit of 20,000 rows.
// "rows" is fitPosthoc of rows as they are read: with the checks, and the NLLs before and after.
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { parseArgs } = require('node:util');
const { median, run } = require('./run.cjs');

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    rows: { type: 'string', default: '100000' },
    classes: { type: 'string', default: '5' },
    rounds: { type: 'string', default: '3' },
    ours: { type: 'boolean' },
  },
});
const classes = Number(values.classes);

/** Overconfident logits, whose labels are drawn from softmax(w z / 2 + b) with w and b a little different by class. */
function generate(folder) {
  const { Random } = require('../../.build/engine/random.js');
  const { softmax } = require('../../.build/metrics/index.js');
  const random = Random.seed(20261201);
  const n = Number(values.rows);
  const logits = new Float64Array(n * classes);
  const labels = new Int32Array(n);
  for (let i = 0; i < n; i++) {
    const z = logits.subarray(i * classes, (i + 1) * classes);
    for (let k = 0; k < classes; k++) z[k] = 3 * random.normal();
    let left = random.uniform();
    const q = softmax(z.map((value, k) => value * (0.4 + 0.2 * (k / classes)) + 0.3 * (k % 2)));
    labels[i] = Math.max(
      0,
      q.findIndex((p) => (left -= p) < 0),
    );
  }
  fs.writeFileSync(path.join(folder, 'logits.f64'), logits);
  fs.writeFileSync(path.join(folder, 'labels.i32'), labels);
}

function read(folder) {
  const bytes = (file) => Uint8Array.from(fs.readFileSync(path.join(folder, file))).buffer;
  const logits = new Float64Array(bytes('logits.f64'));
  return Array.from(new Int32Array(bytes('labels.i32')), (label, i) => ({
    logits: Array.from(logits.subarray(i * classes, (i + 1) * classes)),
    label,
  }));
}

/** Our side, in its own process. */
function ours(folder) {
  const { fitPosthoc, POSTHOC } = require('../../.build/calibrate/posthoc/index.js');
  const { checkPredictions } = require('../../.build/metrics/index.js');
  const rows = read(folder);
  const predictions = checkPredictions(rows);
  const clock = (work) => {
    const started = performance.now();
    const result = work();
    return { seconds: (performance.now() - started) / 1000, result };
  };
  const found = {};
  for (const [name, method] of Object.entries(POSTHOC)) {
    fitPosthoc(name, rows.slice(0, 20_000));
    const fit = clock(() => method.fit({ predictions, where: String }, method.options.parse({})));
    const all = clock(() => fitPosthoc(name, rows));
    const { status, nll_after } = all.result;
    found[name] = { fit: fit.seconds, rows: all.seconds, status, nll: nll_after };
  }
  console.log(JSON.stringify(found));
}

function compare(python) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'calm-posthoc-'));
  try {
    generate(folder);
    const script = path.join(__dirname, 'record_posthoc.py');
    const rounds = Array.from({ length: Number(values.rounds) }, () => ({
      theirs: run(python, [script, '--time', folder, values.classes]),
      mine: run(process.execPath, [__filename, '--ours', '--classes', values.classes, folder]),
    }));
    console.log(
      '| method | status | fit, s | rows, s | package | its fit, s | ratio by round, median | NLL | its NLL |',
    );
    console.log('| --- | --- | ---: | ---: | --- | ---: | --- | ---: | ---: |');
    const { mine, theirs } = rounds[0];
    for (const [name, { status, nll }] of Object.entries(mine)) {
      for (const [at, other] of Object.entries(theirs[name])) {
        const seconds = (of) => median(rounds.map(of)).toFixed(3);
        const ratios = rounds.map((round) => round.theirs[name][at].seconds / round.mine[name].fit);
        console.log(
          `| ${name} | ${status} | ${seconds((r) => r.mine[name].fit)} | ${seconds((r) => r.mine[name].rows)} | ${at} | ` +
            `${seconds((r) => r.theirs[name][at].seconds)} | ${ratios.map((r) => r.toFixed(2)).join(', ')}, ` +
            `**${median(ratios).toFixed(2)}** | ${Number(nll).toFixed(8)} | ${Number(other.nll).toFixed(8)} |`,
        );
      }
    }
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}

if (values.ours) ours(positionals[0]);
else if (positionals.length === 1) compare(positionals[0]);
else {
  console.error('name Python; the head of this file shows how');
  process.exitCode = 2;
}
