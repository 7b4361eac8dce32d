import { codeVersion } from '../base/version';
import type { LanguageModel } from '../pretrained';
import type { Result, Task } from './types';

type Provenance = Pick<
  Result,
  | 'task'
  | 'task_version'
  | 'source'
  | 'split'
  | 'model'
  | 'model_hash'
  | 'adapter_hash'
  | 'head'
  | 'code_version'
  | 'engine'
  | 'seed'
>;

/** What a result says of where it came from. */
export function provenance(
  model: LanguageModel,
  task: Pick<Task, 'name' | 'version' | 'source' | 'split'>,
  seed: number,
): Provenance {
  const { kind, version, gpu } = model.engine;
  return {
    task: task.name,
    task_version: task.version,
    source: task.source,
    split: task.split,
    model: model.name,
    model_hash: model.hash,
    ...(model.tuning && { adapter_hash: model.tuning.adapterHash, head: model.tuning.head }),
    code_version: codeVersion(),
    engine: `${kind} ${version}${gpu ? ' (GPU)' : ''}`,
    seed,
  };
}
