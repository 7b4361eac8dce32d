import { createRequire } from 'node:module';
import type { AddedToken } from './added-tokens';

// Both packages carry a CommonJS build, but their type declarations are marked as ES modules, which TypeScript refuses
// to import from CommonJS, and name no file extensions, so that it does not find their parts. Hence a `require`, and the
// types of what is used here.
const load = createRequire(__filename);

/** Words to the tokens (not ids) they consist of. */
export interface LibraryModel {
  (words: string[]): string[];
  vocab: string[];
  tokens_to_ids: Map<string, number>;
  unk_token_id?: number;
  /** BPE only: rank of each pair, the key being the pair as JSON. */
  bpe_ranks?: Map<string, number>;
}

export interface LibraryTokenizer {
  normalizer: { normalize(text: string): string } | null;
  pre_tokenizer: { pre_tokenize(text: string, options: { section_index: number }): string[] } | null;
  model: LibraryModel;
  decoder: object | null;
  get_added_tokens_decoder(): Map<number, AddedToken>;
  decode(ids: number[], options: { skip_special_tokens: boolean; clean_up_tokenization_spaces: boolean }): string;
}

/** `@huggingface/tokenizers`: the parts of a tokenizer. */
export const tokenizers = load('@huggingface/tokenizers') as {
  Tokenizer: new (json: object, config: object) => LibraryTokenizer;
  ByteFallbackDecoder: new (...args: never) => { text_decoder: InstanceType<typeof TextDecoder> };
  SequenceDecoder: new (...args: never) => { decoders: object[] };
};

/** `@huggingface/jinja`: the template engine of chat templates. */
export const jinja = load('@huggingface/jinja') as {
  Template: new (template: string) => { parsed: unknown; render(variables: Record<string, unknown>): string };
};
