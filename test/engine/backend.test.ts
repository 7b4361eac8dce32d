import { beforeAll, describe, expect, it } from 'vitest';
import { native, startEngine, tf } from '../../src/engine/backend';
import { maxAbsDifference } from '../shared';
import { runChild } from '../child';
import { opsCases, opsError } from './ops-cases';
import { engineResults, type EngineResults } from './portable';

/** In place of TensorFlow's addon on a machine where it is not linked. */
const NOT_LINKED = `
  const { Module } = require('module');
  const load = Module._load;
  Module._load = (name, ...rest) => {
    if (name === '@tensorflow/tfjs-node-gpu') throw new Error('libtensorflow.so.2: cannot open\\nRequire stack: …');
    return load(name, ...rest);
  };`;

const RESULTS = `require('./test/engine/portable.ts').engineResults().then((r) => console.log(JSON.stringify(r)));`;
const REFUSAL = `
  try { require('./src/engine/backend.ts'); } catch (error) { console.log(error.exitCode + ' ' + error.line); }`;

describe('the engine of this process', () => {
  it('says what it is, without a banner just when TensorFlow runs', async () => {
    const info = await startEngine();
    expect(tf.getBackend()).toBe(info.kind);
    expect(native() !== undefined).toBe(info.kind === 'tensorflow');
    expect(info.banner === undefined).toBe(info.kind === 'tensorflow');
    expect(info.version).toMatch(/^\d+\.\d+\.\d+/);
    expect(await startEngine()).toBe(info); // chosen once
  });
});

describe('the portable engines', () => {
  let here: EngineResults;
  beforeAll(async () => {
    here = await engineResults();
  });

  it.each(['cpu', 'wasm'])('%s gives what TensorFlow gives, with a banner', (kind) => {
    const { status, stdout, stderr } = runChild(RESULTS, { env: { CALM_ENGINE: kind } });
    expect([status, stderr]).toEqual([0, expect.stringContaining('*** SLOW ENGINE: ')]);
    expect(stderr).toContain(`${kind.toUpperCase()} backend, because CALM_ENGINE=${kind}. "npm start" links`);
    const there = JSON.parse(stdout) as EngineResults;
    expect(there.info).toMatchObject({ kind, gpu: false });
    [0, 1, 2].flatMap(opsCases).forEach(({ name, right }, i) => {
      expect(opsError(there.ops[i]!, right), name).toBeLessThan(1e-5);
    });
    expect(maxAbsDifference(there.logits.flat(), here.logits.flat())).toBeLessThan(1e-4);
    expect(maxAbsDifference(there.logProbs, here.logProbs)).toBeLessThan(1e-4);
    expect(there.text).toEqual(here.text);
  });

  it('wasm stands in where TensorFlow is not linked, and the banner says why', () => {
    const { stdout, stderr } = runChild(NOT_LINKED + RESULTS, { env: { CALM_ENGINE: undefined } });
    expect((JSON.parse(stdout) as EngineResults).info.kind).toBe('wasm');
    expect(stderr).toContain('WASM backend, because libtensorflow.so.2: cannot open. "npm start" links TensorFlow.');
  });
});

describe('CALM_ENGINE', () => {
  it('is refused when it names no engine', () => {
    const { stdout } = runChild(REFUSAL, { env: { CALM_ENGINE: 'nonsense' } });
    expect(stdout).toBe('2 CALM_ENGINE is "nonsense"; set it to tensorflow, wasm or cpu\n');
  });

  it('=tensorflow fails where TensorFlow is not linked', () => {
    const { stdout } = runChild(NOT_LINKED + REFUSAL, { env: { CALM_ENGINE: 'tensorflow' } });
    expect(stdout).toBe('1 TensorFlow is not linked: libtensorflow.so.2: cannot open; run "npm start"\n');
  });
});

// F-5: with two copies, tensors of one are strangers to the other ("undefined backend").
it('there is one tfjs-core in the process, also with danfo.js and the WebAssembly backend', () => {
  const { stdout } = runChild(`
    const { tf } = require('./src/engine/backend.ts');
    require('@tensorflow/tfjs-backend-wasm');
    const danfo = require('danfojs-node');
    const copies = Object.keys(require.cache).filter((file) => /tfjs-core[\\\\/]dist[\\\\/]tf-core[^\\\\/]*$/.test(file));
    console.log(JSON.stringify([copies.length, danfo.tensorflow.Tensor === tf.Tensor]));`);
  expect(JSON.parse(stdout)).toEqual([1, true]);
});
