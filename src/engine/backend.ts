import type * as Tfjs from '@tensorflow/tfjs';
import { CalmError } from '../base/errors';

export type Tensor = Tfjs.Tensor;
export type Tensor1D = Tfjs.Tensor1D;
export type Tensor2D = Tfjs.Tensor2D;
export type Tensor3D = Tfjs.Tensor3D;
export type Tensor4D = Tfjs.Tensor4D;

/** The native binding of tfjs-node, as far as we use it. */
export interface NativeBackend {
  binding: {
    TF_Version: string;
    TF_ATTR_BOOL: number;
    TF_ATTR_INT: number;
    TF_ATTR_TYPE: number;
    TF_FLOAT: number;
    TF_INT32: number;
    TF_COMPLEX64: number;
  };
  isUsingGpuDevice: boolean;
  executeSingleOutput(
    op: string,
    attributes: { name: string; type: number; value: unknown }[],
    inputs: Tensor[],
  ): Tensor;
}

export type EngineKind = 'tensorflow' | 'wasm' | 'cpu';

export interface EngineInfo {
  kind: EngineKind;
  /** TensorFlow's version, or tfjs's where TensorFlow is not linked. */
  version: string;
  gpu: boolean;
  /** Why a slower engine runs, in words; absent when TensorFlow runs. */
  banner?: string;
}

let linkError: string | undefined;

/** The one tfjs of this process: with TensorFlow's library behind it where that is linked, plain otherwise. */
export const tf: typeof Tfjs = (() => {
  process.env['TF_CPP_MIN_LOG_LEVEL'] ??= '2';
  const asked = process.env['CALM_ENGINE'];
  if (asked !== undefined && !['tensorflow', 'wasm', 'cpu'].includes(asked)) {
    throw new CalmError(`CALM_ENGINE is "${asked}"`, { remedy: 'set it to tensorflow, wasm or cpu', exitCode: 2 });
  }
  if (asked === undefined || asked === 'tensorflow') {
    try {
      // eslint-disable-next-line @typescript-eslint/no-require-imports -- may fail: the native library is linked by setup
      return require('@tensorflow/tfjs-node-gpu') as typeof Tfjs;
    } catch (error) {
      linkError = (error as Error).message.split('\n')[0]?.replace(/[.\s]+$/, '');
      if (asked)
        throw new CalmError(`TensorFlow is not linked: ${linkError}`, { remedy: 'run "npm start"', cause: error });
    }
  } else {
    linkError = `CALM_ENGINE=${asked}`;
  }
  // eslint-disable-next-line @typescript-eslint/no-require-imports -- the same package tfjs-node wraps
  return require('@tensorflow/tfjs') as typeof Tfjs;
})();

/** The native backend, or undefined where plain tfjs runs. */
export function native(): NativeBackend | undefined {
  return tf.getBackend() === 'tensorflow' ? (tf.backend() as unknown as NativeBackend) : undefined;
}

let started: Promise<EngineInfo> | undefined;

/** Chooses the backend, once: TensorFlow, else WebAssembly, else plain JavaScript. Warns visibly when it is a slow one. */
export function startEngine(): Promise<EngineInfo> {
  started ??= start();
  return started;
}

async function start(): Promise<EngineInfo> {
  await tf.ready();
  const backend = native();
  if (backend) return { kind: 'tensorflow', version: backend.binding.TF_Version, gpu: backend.isUsingGpuDevice };
  let kind: EngineKind = 'cpu';
  if (process.env['CALM_ENGINE'] !== 'cpu') {
    try {
      await import('@tensorflow/tfjs-backend-wasm');
      if (await tf.setBackend('wasm')) kind = 'wasm';
    } catch {
      kind = 'cpu'; // no WebAssembly here: plain JavaScript is what is left
    }
  }
  if (kind === 'cpu') await tf.setBackend('cpu');
  const banner = `SLOW ENGINE: running on tfjs's own ${kind.toUpperCase()} backend, because ${linkError}. "npm start" links TensorFlow.`;
  process.stderr.write(`\n*** ${banner} ***\n\n`);
  return { kind, version: tf.version_core, gpu: false, banner };
}
