import * as fs from 'node:fs';
import * as path from 'node:path';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { setQuiet } from '../../src/base/progress';
import { startEngine, tf, type Tensor } from '../../src/engine/backend';
import { tensorsKept } from '../../src/engine/leaks';
import { Random } from '../../src/engine/random';
import { dispose, leaves, map } from '../../src/engine/tree';
import { runMethod, type Method, type RunOptions, type Variables } from '../../src/train/loop';
import { temporaryFolder } from '../model/make-files';

const folder = temporaryFolder();
beforeAll(async () => {
  setQuiet(true);
  await startEngine();
});

let out = '';
let runs = 0;
beforeEach(() => {
  out = path.join(folder, `run-${runs++}`);
});

/** Descends (p - target of the step)^2; the target follows from the seed and the step, as a batch does. */
function method(changes: Partial<Method> = {}, failAt = Infinity): Method {
  return {
    identity: { method: 'test', steps: 6 },
    steps: 6,
    warmupSteps: 2,
    variables: { p: { x: tf.tensor1d([1, 2, 3]) } },
    groups: { p: { rate: 0.1, weightDecay: 0.02 } },
    optimiser: { optimiser: 'adamw' },
    passes: 1,
    step(k, variables) {
      if (k === failAt) throw new Error('killed');
      const target = tf.tensor1d(Array.from({ length: 3 }, Random.seed(k).uniform.bind(Random.seed(k))));
      const x = (variables['p'] as { x: Tensor }).x;
      const difference = tf.sub(x, target);
      const [loss] = tf.tidy(() => tf.sum(tf.square(difference)).dataSync<'float32'>());
      const direction = { p: { x: tf.mul(difference, 2) } };
      tf.dispose([target, difference]);
      return { direction, numbers: { loss: loss! }, tokens: 10, rows: `rows ${k}` };
    },
    project: (variables) => map(variables as never, (t) => tf.clipByValue(t, -10, 10)),
    describe: ({ loss }) => `loss ${loss}`,
    mostLoss: 1000,
    ...changes,
  };
}

const valuesOf = (variables: Variables) => leaves(variables).map(([, leaf]) => [...leaf.dataSync()]);
const run = (m: Method, options: RunOptions = {}) => {
  const { variables, log } = runMethod(m, options);
  const values = valuesOf(variables);
  dispose(variables);
  return { values, log };
};
const files = () => fs.readdirSync(path.join(out, 'checkpoints')).sort();

describe('a run', () => {
  it('writes its log, its last two checkpoints and what it was', () => {
    const { log } = run(method(), { out, checkpointSeconds: 0 });
    expect(log.map(({ step }) => step)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(log.map(({ rates }) => rates['p']!)).toEqual(
      [0.05, 0.1, 0.0905, 0.0655, 0.0345, 0.0095].map((rate) => expect.closeTo(rate, 3) as number),
    );
    const lines = fs.readFileSync(path.join(out, 'log.jsonl'), 'utf8').trim().split('\n');
    expect(lines.map((line) => (JSON.parse(line) as { step: number }).step)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(files()).toEqual(['step-000005.safetensors', 'step-000006.safetensors']);
    expect(JSON.parse(fs.readFileSync(path.join(out, 'run.json'), 'utf8'))).toMatchObject({ status: 'done', done: 6 });
  });

  it.each(['adamw', 'sgd'] as const)('stopped anywhere and resumed ends as one that was not (%s)', (optimiser) => {
    const whole = run(method({ optimiser: { optimiser } })).values;
    for (const failAt of [0, 1, 3, 5]) {
      out = path.join(folder, `run-${runs++}`);
      const first = method({ optimiser: { optimiser } }, failAt);
      expect(() => run(first, { out, checkpointSeconds: 0 })).toThrow('killed');
      fs.appendFileSync(path.join(out, 'log.jsonl'), '{"step": 9, "lo'); // a line that was being written
      const { values, log } = run(method({ optimiser: { optimiser } }), { out, resume: true });
      expect(values).toEqual(whole); // to the bit
      expect(log.map(({ step }) => step)).toEqual([1, 2, 3, 4, 5, 6]);
    }
  });

  it('resumed when it is done gives its result again', () => {
    const { values } = run(method(), { out });
    expect(run(method(), { out, resume: true }).values).toEqual(values);
  });

  it('keeps no tensors but its variables', async () => {
    const kept = await tensorsKept(() => {
      run(method(), { out, checkpointSeconds: 0 });
      run(method(), { out, resume: true });
    });
    expect(kept).toBe(0);
  });

  it('measures validation at epochs and at the end', () => {
    const measure = (variables: Variables) => ({ validation: valuesOf(variables)[0]![0]! });
    const { log } = run(method({ validation: { every: 4, measure } }));
    expect(log.map((entry) => 'validation' in entry)).toEqual([false, false, false, true, false, true]);
  });

  it('scales a direction down to the longest that is allowed', () => {
    const groups = { p: { rate: 0.1, weightDecay: 0 } };
    const free = run(method({ groups, optimiser: { optimiser: 'sgd' } })).values;
    const clipped = run(method({ groups, optimiser: { optimiser: 'sgd' }, clipNorm: 0.01 })).values;
    const moved = (values: number[][]) => Math.hypot(...values[0]!.map((v, i) => v - [1, 2, 3][i]!));
    expect(moved(clipped)).toBeLessThan(0.006);
    expect(moved(free)).toBeGreaterThan(0.1);
  });
});

describe('what goes wrong', () => {
  const after = (k: number, changes: (numbers: Record<string, number>) => Record<string, number>): Method => {
    const plain = method();
    return {
      ...plain,
      step: (step, variables, onPass) => {
        const made = plain.step(step, variables, onPass);
        return step === k ? { ...made, numbers: changes(made.numbers) } : made;
      },
    };
  };

  it('a number that is none, with the step, its rows and the last good checkpoint', () => {
    const bad = after(3, (numbers) => ({ ...numbers, lambda: NaN }));
    expect(() => run(bad, { out, checkpointSeconds: 0 })).toThrow(
      /training stopped at step 4: lambda is NaN \(rows 3\)/,
    );
    try {
      run(
        after(3, () => ({ loss: Infinity })),
        { out: `${out}-again`, checkpointSeconds: 0 },
      );
    } catch (error) {
      expect((error as { remedy: string }).remedy).toMatch(/lower the rates; .+step-000003.safetensors/);
    }
  });

  it('a loss that grows without end', () => {
    expect(() => run(after(1, () => ({ loss: 5000 })))).toThrow(/step 2: the loss has grown to 5000/);
  });

  it('a folder that holds a run, or none to resume', () => {
    expect(() => run(method(), { out, resume: true })).toThrow(/holds no run to resume/);
    run(method(), { out });
    expect(() => run(method(), { out })).toThrow(/holds a run already/);
  });

  it('other options than those it was started with', () => {
    run(method(), { out });
    const other = method({ identity: { method: 'test', steps: 7 } });
    expect(() => run(other, { out, resume: true })).toThrow(/is a run with steps 6, not 7/);
  });

  it('a checkpoint that is half written: the one before is taken', () => {
    const { values } = run(method(), { out, checkpointSeconds: 0 });
    const [, last] = files();
    const file = path.join(out, 'checkpoints', last!);
    fs.writeFileSync(file, fs.readFileSync(file).subarray(0, 100));
    expect(run(method(), { out, resume: true }).values).toEqual(values);
  });

  it('no whole checkpoint, or one of another version', () => {
    run(method(), { out, checkpointSeconds: 0 });
    const [first, last] = files().map((name) => path.join(out, 'checkpoints', name));
    const bytes = fs.readFileSync(last!);
    fs.writeFileSync(last!, Buffer.from(bytes.toString('latin1').replace('"version":"1"', '"version":"0"'), 'latin1'));
    expect(() => run(method(), { out, resume: true })).toThrow(/is a checkpoint of version 0, not 1/);
    for (const file of [first!, last!]) fs.writeFileSync(file, '');
    expect(() => run(method(), { out, resume: true })).toThrow(/no checkpoint in .+ is whole/);
  });
});
