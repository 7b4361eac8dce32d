import type { Command } from 'commander';
import * as path from 'node:path';
import { describeOptions, METHODS, optionsFromTexts, parseOptions } from '../calibrate/options';
import { WEIGHT_FORMATS, type WeightFormat } from '../model/weight-formats';
import { checkWritable, finish, number, oneOf } from './options';

interface Options {
  model: string;
  train: string;
  valid: string;
  out: string;
  set: string[];
  resume?: boolean;
  checkpointSeconds: number;
  weights: WeightFormat;
  json?: boolean;
}

export function trainModel(calm: Command): void {
  calm
    .command('train')
    .description('Train an adapter, and with some methods a calibration head, on a model')
    .argument('<method>', Object.keys(METHODS).join(', '))
    .requiredOption('--model <model>', 'preset, .gguf file, or folder in Hugging Face layout')
    .requiredOption(
      '--train <file>',
      'rows {question, choices, answer} or {instruction, input, output}; for dpo {prompt, chosen, rejected}',
    )
    .requiredOption('--valid <file>', 'rows to validate on; with calm and iterate also those of the upper level')
    .requiredOption('--out <folder>', 'where run.json, log.jsonl, checkpoints, the adapter and the head go')
    .option(
      '--set <key=value>',
      'an option of the method; may be given again',
      (text, all: string[]) => [...all, text],
      [],
    )
    .option(
      '--weights <form>',
      'how the model is held: float32, stored (as in its file) or nf4',
      oneOf(WEIGHT_FORMATS),
      'float32',
    )
    .option('--resume', 'continue the run that is in --out')
    .option('--checkpoint-seconds <s>', 'time between checkpoints', number(0), 60)
    .option('--json', 'print one JSON object')
    .addHelpText('after', () =>
      Object.keys(METHODS)
        .map((name) => `\nOptions of ${name}, for --set:\n${describeOptions(name)}`)
        .join('\n'),
    )
    .action(async (method: string, { model: name, train: trainFile, valid, out, set, resume, ...options }: Options) => {
      const { loadModel, train } = await import('../index.js');
      const chosen = optionsFromTexts(method, set);
      parseOptions(method, chosen); // before the model is loaded
      checkWritable(path.join(out, 'run.json'));
      const model = await loadModel(name, { weights: options.weights });
      const trained = await train(model, {
        ...chosen,
        method: method as 'calm',
        train: trainFile,
        validation: valid,
        out,
        resume: resume === true,
        checkpointSeconds: options.checkpointSeconds,
      });
      const left = trained.leftOut.flatMap(({ file, unusable, tooLong }) => [
        ...(unusable.length > 0
          ? [
              `${file}: ${unusable.length} rows cannot be used, the first in line ${unusable[0]!.line} (${unusable[0]!.reason})`,
            ]
          : []),
        ...(tooLong.length > 0
          ? [`${file}: ${tooLong.length} rows exceed the context: ${tooLong.slice(0, 5).join(', ')}`]
          : []),
      ]);
      const last = trained.log.at(-1);
      finish(
        options,
        { out, last, left_out: trained.leftOut },
        [...left, `${out}: adapter, ${trained.head ? 'calibration_head.safetensors, ' : ''}run.json, log.jsonl`].join(
          '\n',
        ),
      );
    });
}
