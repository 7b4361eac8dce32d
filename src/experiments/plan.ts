import * as fs from 'node:fs';
import * as path from 'node:path';
import { z } from 'zod';
import { UsageError } from '../base/errors';
import { readJson } from '../base/files';
import { unknownName } from '../base/pick';
import { PRESETS } from '../base/presets';
import { WEIGHT_FORMATS, type WeightFormat } from '../model/weight-formats';

/** Questions: a task as `loadTask` knows it, or a `.jsonl` file. Rows to train on may also be a file of instructions. */
export interface Source {
  task: string;
  data?: string | undefined;
  split?: string | undefined;
  /** The first n questions; below 1, that share of them. */
  limit?: number | undefined;
}

/** What is trained on, chosen by and reported, and how questions are put. */
export interface Setting {
  /** Needed by training methods. */
  train?: string | Source | undefined;
  /** Rows of the upper level of training methods; by default the validation questions. */
  trainValidation?: string | Source | undefined;
  /** Temperatures are fitted and points selected on these. */
  validation: string | Source;
  test: string | Source;
  scoring?: 'letter' | 'cloze' | 'continuation' | undefined;
  normalisation?: 'none' | 'token' | 'byte' | undefined;
  /** Worked examples before each question. */
  shots?: number | undefined;
  chat?: boolean | 'multiturn' | undefined;
  system?: string | undefined;
}

export interface PlannedMethod {
  /** `baseline`, `ts` (temperature scaling), `calm-scalar`, or a method of `calm train`. */
  method: string;
  /** What tables call it; by default the method. */
  name?: string | undefined;
  /** Options of the method that are not its defaults. */
  options?: Record<string, unknown> | undefined;
  /** Values to try of some options: every combination becomes a point. */
  grid?: Record<string, unknown[]> | undefined;
  /** The settings it is for; by default all. */
  settings?: string[] | undefined;
  /** Its seeds, where they are others than the plan's. */
  seeds?: number[] | undefined;
}

/** An experiment: every method on every model in every setting, for every seed. */
export interface Plan {
  name: string;
  /** Presets, `.gguf` files or folders in Hugging Face layout. */
  model: string | string[];
  /** How weights are held, by default float32. */
  weights?: WeightFormat | undefined;
  settings: Record<string, Setting>;
  methods: (string | PlannedMethod)[];
  /** By default 0 alone. */
  seeds?: number[] | undefined;
  bins?: number | undefined;
  /** Bootstrap resamples behind the intervals, by default 1000. */
  resamples?: number | undefined;
}

const NAME = z
  .string()
  .regex(/^[A-Za-z0-9][\w.-]*$/, 'expected a name of letters, digits, ".", "_" and "-"; folders are called by it');
const text = z.string().min(1, 'expected a name or path');
const unique = (what: string) => (values: unknown[], context: z.core.$RefinementCtx<unknown[]>) => {
  const texts = values.map((value) => JSON.stringify(value));
  const twice = texts.find((value, i) => texts.indexOf(value) !== i);
  if (twice !== undefined) context.addIssue({ code: 'custom', message: `${what} ${twice} stands there twice` });
};
const isText = (value: unknown): value is string => typeof value === 'string';

const SOURCE = z.preprocess(
  (value) => (isText(value) ? { task: value } : value),
  z.strictObject(
    { task: text, data: text.optional(), split: text.optional(), limit: z.number().positive().optional() },
    'expected a task, a .jsonl file, or {"task", "data", "split", "limit"}',
  ),
);

const SETTING = z.strictObject({
  train: SOURCE.optional(),
  trainValidation: SOURCE.optional(),
  validation: SOURCE,
  test: SOURCE,
  scoring: z.enum(['letter', 'cloze', 'continuation']).default('letter'),
  normalisation: z.enum(['none', 'token', 'byte']).default('none'),
  shots: z.int().min(0).default(0),
  chat: z.union([z.boolean(), z.literal('multiturn')], 'expected true, false or "multiturn"').default(false),
  system: z.string().optional(),
});

const SEEDS = z
  .array(z.int('expected an integer').min(0, 'a seed is 0 or more'))
  .min(1, 'a plan of 0 seeds has no points; name at least one')
  .superRefine(unique('seed'));

const METHOD = z.preprocess(
  (value) => (isText(value) ? { method: value } : value),
  z.strictObject(
    {
      method: text,
      name: NAME.optional(),
      options: z.record(z.string(), z.unknown()).default({}),
      grid: z
        .record(z.string(), z.array(z.unknown()).min(1, 'has no value to try').superRefine(unique('the value')))
        .default({}),
      settings: z.array(text).min(1, 'name at least one, or leave it out for all').optional(),
      seeds: SEEDS.optional(),
    },
    'expected a method, or {"method", "options", "grid"}',
  ),
);

const named = <T extends z.ZodType>(value: T, what: string) =>
  z.record(NAME, value).refine((all) => Object.keys(all).length > 0, `name at least one ${what}`);

const PLAN = z.strictObject({
  name: NAME,
  model: z.preprocess(
    (value) => (isText(value) ? [value] : value),
    z.array(text, 'expected a model or a list of them').min(1, 'name at least one model').superRefine(unique('model')),
  ),
  weights: z.enum(WEIGHT_FORMATS).default('float32'),
  settings: named(SETTING, 'setting'),
  methods: z.array(METHOD).min(1, 'name at least one method'),
  seeds: SEEDS.default([0]),
  bins: z.int().min(1).default(10),
  resamples: z.int().min(0).default(1000),
});

/** A plan with its defaults filled in, and its paths absolute. */
export type CheckedPlan = z.output<typeof PLAN>;

/**
 * Checks a plan and fills in its defaults.
 * @param where what an error calls it
 * @param folder that its relative paths start from
 * @throws UsageError that names the field and, where it is misspelt, the nearest
 */
export function checkPlan(plan: unknown, where = 'the plan', folder = '.'): CheckedPlan {
  const parsed = PLAN.safeParse(plan);
  if (!parsed.success) throw planError(parsed.error.issues[0]!, where);
  const checked = parsed.data;
  for (const { method, settings = [] } of checked.methods) {
    const unknown = settings.find((name) => !Object.hasOwn(checked.settings, name));
    if (unknown === undefined) continue;
    const { message, remedy } = unknownName('setting', unknown, Object.keys(checked.settings));
    throw new UsageError(`${where}: ${method}: ${message}`, remedy === undefined ? {} : { remedy });
  }
  const located = (name: string) => {
    const there = path.resolve(folder, name);
    return !Object.hasOwn(PRESETS, name) && fs.existsSync(there) ? there : absolute(name);
  };
  // A bare word is a preset or a task; anything else is a place.
  const absolute = (name: string) => (/[\\/]|\.(gguf|jsonl?)$/.test(name) ? path.resolve(folder, name) : name);
  const source = (from: Source): Source => ({
    ...from,
    task: absolute(from.task),
    ...(from.data !== undefined && { data: path.resolve(folder, from.data) }),
  });
  for (const setting of Object.values(checked.settings)) {
    setting.validation = source(setting.validation);
    setting.test = source(setting.test);
    if (setting.train) setting.train = source(setting.train);
    if (setting.trainValidation) setting.trainValidation = source(setting.trainValidation);
  }
  return { ...checked, model: checked.model.map(located) };
}

/**
 * Reads a plan's JSON file.
 * @param folder that its relative paths start from; by default its own
 * @throws CalmError, UsageError as `checkPlan`
 */
export function readPlan(file: string, folder = path.dirname(file)): CheckedPlan {
  return checkPlan(readJson(file), file, folder);
}

function planError(issue: z.core.$ZodIssue, where: string): UsageError {
  const place = issue.path.map(String).join('.');
  if (issue.code === 'unrecognized_keys') {
    const shape = /^settings\.[^.]+$/.test(place)
      ? SETTING.shape
      : /^methods\.\d+$/.test(place)
        ? { method: 0, name: 0, options: 0, grid: 0, settings: 0, seeds: 0 }
        : place === ''
          ? PLAN.shape
          : { task: 0, data: 0, split: 0, limit: 0 };
    const { message, remedy } = unknownName(`field of ${place || 'a plan'}`, issue.keys[0]!, Object.keys(shape));
    return new UsageError(`${where}: ${message}`, remedy === undefined ? {} : { remedy });
  }
  const message = issue.code === 'invalid_key' ? (issue.issues[0]?.message ?? issue.message) : issue.message;
  const words = message.replace(/^Invalid input: expected (.*), received undefined$/, 'missing (expected $1)');
  return new UsageError(`${where}: ${place ? `${place}: ` : ''}${words}`);
}
