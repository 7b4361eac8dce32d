import * as fs from 'node:fs';
import * as path from 'node:path';
import { z } from 'zod';
import { CalmError } from '../base/errors';
import { fileError, readJson } from '../base/files';
import { readMerges } from './merges';
import { naming } from './naming';
import { corrected } from './pre-tokenizers';
import { Tokenizer } from './tokenizer';

const MAX_ID = 2 ** 24; // far beyond any real vocabulary

const part = z.looseObject({ type: z.string() }).nullish();

const tokenizerJson = z.looseObject({
  model: z.looseObject({
    type: z.string().nullish(),
    vocab: z.custom<object>(isVocabulary, 'expected token ids by token, or pairs of token and score'),
  }),
  added_tokens: z
    .array(z.looseObject({ id: z.int().min(0).max(MAX_ID), content: z.string() }))
    .nullish()
    .transform((tokens) => tokens ?? []),
  normalizer: part,
  pre_tokenizer: part,
  post_processor: part,
  decoder: part,
});

// By hand because zod drops the key `__proto__`, which may be a token.
function isVocabulary(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (Array.isArray(value)) return value.every((pair: unknown) => Array.isArray(pair) && typeof pair[0] === 'string');
  return Object.values(value).every((id: unknown) => Number.isInteger(id) && Number(id) >= 0 && Number(id) <= MAX_ID);
}

const token = z
  .union([z.string(), z.looseObject({ content: z.string() })])
  .nullish()
  .transform((value) => (typeof value === 'string' ? value : value?.content));

const tokenizerConfig = z.looseObject({
  bos_token: token,
  eos_token: token,
  pad_token: token,
  add_bos_token: z.boolean().nullish(),
  chat_template: z.union([z.string(), z.array(z.looseObject({ name: z.string(), template: z.string() }))]).nullish(),
});

/**
 * A tokenizer from a folder with `tokenizer.json`, and `tokenizer_config.json`, `special_tokens_map.json` and
 * `chat_template.jinja` where there are any.
 * @throws CalmError that names the file and what is wrong in it
 */
export function tokenizerFromFolder(folder: string): Tokenizer {
  const file = (name: string) => path.join(folder, name);
  const optional = (name: string) => (fs.existsSync(file(name)) ? asObject(readJson(file(name))) : {});
  const config = { ...optional('special_tokens_map.json'), ...optional('tokenizer_config.json') };
  if (fs.existsSync(file('chat_template.jinja'))) config['chat_template'] = readText(file('chat_template.jinja'));
  return tokenizerFromJson(readJson(file('tokenizer.json')), config, folder);
}

/**
 * A tokenizer from the parsed content of `tokenizer.json` and `tokenizer_config.json`.
 * @throws CalmError with the first fault; `where` stands in front of it
 */
export function tokenizerFromJson(json: unknown, config: unknown = {}, where = 'tokenizer.json'): Tokenizer {
  return naming(where, () => {
    const { bos_token, eos_token, pad_token, add_bos_token, chat_template } = check(tokenizerConfig, config);
    const checked = check(tokenizerJson, json);
    const first = firstOfTemplate(checked.post_processor);
    const bosToken = bos_token ?? first;
    return new Tokenizer({
      json: supported(checked),
      bosToken,
      eosToken: eos_token,
      padToken: pad_token,
      addBos: add_bos_token ?? (first !== undefined && first === bosToken),
      chatTemplate: Array.isArray(chat_template)
        ? chat_template.find(({ name }) => name === 'default')?.template
        : (chat_template ?? undefined),
    });
  });
}

/** The same in the one spelling that the library reads right. */
function supported(json: z.output<typeof tokenizerJson>): Record<string, unknown> {
  const { model, pre_tokenizer } = json;
  if (pre_tokenizer) json.pre_tokenizer = corrected(pre_tokenizer);
  if ((model.type ?? 'BPE') !== 'BPE' || model['merges'] === undefined) return json;
  if (model['continuing_subword_prefix']) {
    throw new CalmError('merges with a continuing_subword_prefix are not supported');
  }
  const merges = readMerges(model['merges'], new Set(Object.keys(model.vocab)));
  return { ...json, model: { ...model, type: 'BPE', merges } };
}

/** The special token that a post-processor puts before the text. */
function firstOfTemplate(post: unknown): string | undefined {
  const processor = asObject(post);
  switch (processor['type']) {
    case 'Sequence':
      return asArray(processor['processors'])
        .map(firstOfTemplate)
        .find((found) => found !== undefined);
    case 'TemplateProcessing':
      return asString(asObject(asObject(asArray(processor['single'])[0])['SpecialToken'])['id']);
    case 'BertProcessing':
    case 'RobertaProcessing':
      return asString(asArray(processor['cls'])[0]);
    default:
      return undefined;
  }
}

function readText(file: string): string {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch (error) {
    throw fileError(error, file, 'read');
  }
}

function asObject(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

function asArray(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function asString(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function check<T extends z.ZodType>(schema: T, value: unknown): z.output<T> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  throw new CalmError(`${issue?.path.join('.') || 'the content'}: ${issue?.message ?? 'not understood'}`);
}
