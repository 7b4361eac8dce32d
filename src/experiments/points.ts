import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { CalmError, UsageError } from '../base/errors';
import { fileError, toJson } from '../base/files';
import { shortHash } from '../base/hash';
import { unknownName } from '../base/pick';
import { PRESETS, presetFile } from '../base/presets';
import { completeOptions, isTrained, optionNames, resolveMethod, usesInstructions } from './methods';
import type { CheckedPlan, Setting, Source } from './plan';
import type { Point } from './types';

/** Raised when a point's row comes to mean something else: all are then run again. */
const VERSION = 1;

type Options = Record<string, unknown>;
interface Configuration {
  label: string;
  method: string;
  options: Options;
  varied: Options;
}

/**
 * The points of a plan: models x settings x methods x grid x seeds, in that order. A method that draws nothing by its
 * seed has one point; a plan without `baseline` gets it, for the selection rule compares with it.
 *
 * A point's id is made of what decides it: the contents of the model and the data, the options with their defaults, the
 * seed. A changed plan so has new ids for what has changed, and for that alone.
 * @throws UsageError for an unknown method or option, a value out of its range, or data that is missing; CalmError when
 *   a model or data cannot be read
 */
export async function pointsOf(plan: CheckedPlan): Promise<Point[]> {
  const points: Point[] = [];
  const hashOf = remember(hashSource);
  for (const model of plan.model) {
    const modelHash = await hashModel(model);
    for (const [name, setting] of Object.entries(plan.settings)) {
      for (const entry of methodsOf(plan, name)) {
        for (const { varied, ...configuration } of configurations(entry, setting)) {
          const { seeds = plan.seeds } = entry;
          const trained = isTrained(configuration.method);
          const instructed = usesInstructions(configuration.method, configuration.options);
          if ((trained || instructed) && setting.train === undefined) {
            throw new UsageError(`the setting ${name} has nothing to train on, which ${entry.method} needs`, {
              remedy: 'name a "train" file or task in it',
            });
          }
          const sources: Point['sources'] = {
            ...(trained && { train: toSource(setting.train!) }),
            ...((trained || instructed) && {
              trainValidation: toSource(setting.trainValidation ?? setting.validation),
            }),
            validation: toSource(setting.validation),
            test: toSource(setting.test),
          };
          const { scoring, normalisation, shots, chat, system } = setting;
          const { bins, resamples, weights } = plan;
          const evaluation = { scoring, normalisation, shots, chat, ...(system !== undefined && { system }), bins, resamples }; // prettier-ignore
          if (scoring === 'letter' && normalisation !== 'none') {
            throw new UsageError(`the setting ${name}: letters are not normalised, each is one token`, {
              remedy: 'score by cloze instead',
            });
          }
          const data: Record<string, string> = {};
          for (const [part, source] of Object.entries(sources)) {
            const counts = part === 'validation' || part === 'test';
            data[part] = await hashOf(JSON.stringify(source), source, counts ? shots : 0);
          }
          for (const seed of trained || shots > 0 ? seeds : seeds.slice(0, 1)) {
            const point = { model, weights, setting: name, ...configuration, varied, seed, sources, evaluation };
            const { method, options } = configuration;
            const decides = { VERSION, modelHash, weights, method, options, seed, data, evaluation };
            points.push({ id: idOf(point, plan.model.length > 1, decides), ...point });
          }
        }
      }
    }
  }
  return points;
}

/** The entries of a plan for a setting, `baseline` among them. @throws UsageError where two have one name */
function methodsOf(plan: CheckedPlan, setting: string): CheckedPlan['methods'] {
  const entries = plan.methods.filter(({ settings }) => settings === undefined || settings.includes(setting));
  const labels = entries.map(({ name, method }) => name ?? method);
  const twice = labels.find((label, i) => labels.indexOf(label) !== i);
  if (twice !== undefined) {
    throw new UsageError(`two methods of the plan ${plan.name} are called ${twice}`, {
      remedy: 'give one of them a "name"',
    });
  }
  if (entries.some(({ method }) => method === 'baseline')) return entries;
  return [{ method: 'baseline', options: {}, grid: {} }, ...entries];
}

/** Every combination of a grid's values, the last option varying fastest; one for an empty grid. */
export function combinations(grid: Readonly<Record<string, readonly unknown[]>>): Options[] {
  return Object.entries(grid).reduce<Options[]>(
    (all, [key, values]) => all.flatMap((one) => values.map((value) => ({ ...one, [key]: value }))),
    [{}],
  );
}

/** The points of one entry of a plan's methods, without seeds. */
function configurations(entry: CheckedPlan['methods'][number], setting: Setting): Configuration[] {
  const label = entry.name ?? entry.method;
  const { method, options: preset } = resolveMethod(entry.method);
  const names = optionNames(method);
  for (const [key, where] of [
    ...Object.keys(entry.options).map((name) => [name, 'options'] as const),
    ...Object.keys(entry.grid).map((name) => [name, 'grid'] as const),
  ]) {
    if (key === 'seed')
      throw new UsageError(`${label}: "seed" is not for ${where}`, { remedy: 'list "seeds" in the plan' });
    if (names.length === 0) throw new UsageError(`${label} has no options, and "${key}" stands in its ${where}`);
    if (!names.includes(key)) throw unknownName(`option of ${label}`, key, names);
    const also = where === 'grid' ? [entry.options, preset] : [preset];
    if (also.some((other) => key in other)) {
      throw new UsageError(`${label}: ${key} is set already, and stands in its ${where} again`, {
        remedy: 'leave one of them out',
      });
    }
  }
  // Trained as it is asked, unless the plan says otherwise.
  const format = names.includes('format') ? { format: setting.scoring === 'letter' ? 'letter' : 'cloze' } : {};
  return combinations(entry.grid).map((varied) => {
    const { seed: _seed, ...options } = naming(label, varied, () =>
      completeOptions(method, { ...format, ...preset, ...entry.options, ...varied }),
    );
    return { label, method, options, varied };
  });
}

/** Says which point of the grid an option's error is about. */
function naming<T>(label: string, varied: Options, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof CalmError)) throw error;
    const which = Object.keys(varied).length > 0 ? ` at ${toJson(varied)}` : '';
    const { remedy } = error;
    throw new UsageError(`${label}${which}: ${error.message}`, {
      ...(remedy !== undefined && { remedy }),
      cause: error,
    });
  }
}

function idOf(point: Omit<Point, 'id'>, severalModels: boolean, decides: object): string {
  const value = (v: unknown) => (Array.isArray(v) ? v.map(String).join('+') : String(v));
  const words = [
    ...(severalModels ? [path.basename(point.model).replace(/\.gguf$/i, '')] : []),
    point.setting,
    point.label,
    ...Object.entries(point.varied).map(([key, v]) => `${key}${value(v)}`),
    `s${point.seed}`,
  ];
  const slug = words.join('-').replace(/[^\w.+-]+/g, '_').slice(0, 100); // prettier-ignore
  return `${slug}-${shortHash(toJson(decides)).slice(0, 8)}`;
}

const toSource = (source: string | Source): Source => (typeof source === 'string' ? { task: source } : source);

/** The file of rows that a source is, where it is one as it stands. */
export function plainFile(source: Source): string | undefined {
  const { task, data, split, limit } = source;
  return task.endsWith('.jsonl') && data === undefined && split === undefined && limit === undefined ? task : undefined;
}

async function hashSource(source: Source, shots: number): Promise<string> {
  const file = plainFile(source);
  if (file !== undefined) return hashFile(file);
  // Imported when needed: tasks bring TensorFlow along.
  const [{ loadTask }, { docHash }] = await Promise.all([import('../evaluate/index.js'), import('../data/index.js')]);
  const { task, ...options } = source;
  const { version, docs, fewShot } = await loadTask(task, { ...options, shots });
  return shortHash(JSON.stringify([version, docs.map(docHash), fewShot?.pool.map(docHash) ?? null]));
}

/** SHA-256 over a model's weights, or a preset's published one. @throws CalmError as `loadModel` when it is not here */
async function hashModel(model: string): Promise<string> {
  const preset = Object.hasOwn(PRESETS, model) ? PRESETS[model] : undefined;
  if (preset) {
    if (fs.existsSync(presetFile(model))) return preset.sha256;
    throw new CalmError(`the model ${model} is not here: ${presetFile(model)} does not exist`, {
      remedy: 'run "npm start"',
    });
  }
  if (!path.isAbsolute(model)) throw unknownName('model', model, Object.keys(PRESETS));
  if (!fs.existsSync(model)) throw fileError(Object.assign(new Error(), { code: 'ENOENT' }), model, 'read');
  if (!fs.statSync(model).isDirectory()) return hashFile(model);
  const files = fs.readdirSync(model).filter((name) => /\.(safetensors|json)$/.test(name)).sort(); // prettier-ignore
  const hashes: string[] = [];
  for (const name of files) hashes.push(await hashFile(path.join(model, name)));
  return shortHash(hashes.join());
}

async function hashFile(file: string): Promise<string> {
  const hash = createHash('sha256');
  try {
    for await (const chunk of fs.createReadStream(file, { highWaterMark: 2 ** 20 })) hash.update(chunk as Buffer);
  } catch (error) {
    throw fileError(error, file, 'read');
  }
  return hash.digest('hex').slice(0, 16);
}

function remember<A extends unknown[], T>(work: (...args: A) => Promise<T>): (key: string, ...args: A) => Promise<T> {
  const known = new Map<string, Promise<T>>();
  return (key, ...args) => {
    const full = `${key} ${JSON.stringify(args)}`;
    const found = known.get(full) ?? work(...args);
    known.set(full, found);
    return found;
  };
}
