import { CalmError, UsageError } from '../base/errors';
import { addedTokenSplitter, type AddedToken, type Section } from './added-tokens';
import { tokenizers, type LibraryTokenizer } from './huggingface';

/** What a tokenizer is built from, whichever file it came out of. */
export interface TokenizerSource {
  /** The content of a `tokenizer.json`. */
  json: Record<string, unknown>;
  bosToken?: string;
  eosToken?: string;
  padToken?: string;
  /** Whether a text starts with BOS. */
  addBos: boolean;
  /** The Jinja template of a conversation. */
  chatTemplate?: string;
  /** Rank of each pair (as JSON) where it is not the place of the pair in the list of merges. */
  mergeRanks?: Map<string, number>;
}

export interface EncodeOptions {
  /** `true` reads the markers of special tokens in the text as those tokens, `'as-text'` as the characters they are. */
  specialTokens?: true | 'as-text';
  /** Whether the ids start with BOS; the model's own rule unless said. */
  addBos?: boolean;
}

/**
 * Text to token ids and back, as Hugging Face's tokenizers do it. The parts (normaliser, pre-tokeniser, model, decoder)
 * are the library's; the order they run in is here, because the library's own `encode` reads a special token that
 * normalisation made as special, and has no way to take special tokens as text.
 */
export class Tokenizer {
  readonly bosId: number | undefined;
  readonly bosToken: string | undefined;
  readonly eosId: number | undefined;
  readonly eosToken: string | undefined;
  /** The id to pad with: the padding token, else EOS, else 0. It is masked wherever it stands. */
  readonly padId: number;
  /** Ids run from 0 to `vocabSize - 1`. */
  readonly vocabSize: number;
  /** Whether the model wants its texts to start with BOS. */
  readonly addBos: boolean;
  /** The model's chat template (Jinja), if it has one. */
  readonly chatTemplate: string | undefined;
  private readonly pipeline: LibraryTokenizer;
  private readonly splitters: Record<'special' | 'text', { raw: Splitter; normalised: Splitter }>;

  constructor(source: TokenizerSource) {
    this.pipeline = buildPipeline(source);
    this.vocabSize = this.pipeline.model.vocab.length;
    this.addBos = source.addBos;
    this.chatTemplate = source.chatTemplate;
    this.bosToken = source.bosToken;
    this.eosToken = source.eosToken;
    this.bosId = this.specialId('BOS', source.bosToken);
    this.eosId = this.specialId('EOS', source.eosToken);
    this.padId = this.specialId('padding', source.padToken) ?? this.eosId ?? 0;
    if (this.addBos && this.bosId === undefined) {
      throw new CalmError('the tokenizer says that texts start with BOS, but names no BOS token');
    }
    const added = [...this.pipeline.get_added_tokens_decoder().values()];
    this.splitters = {
      special: this.splittersOf(added),
      text: this.splittersOf(added.filter((token) => !token.special)),
    };
  }

  /**
   * The ids of a text. There is exactly one BOS in front where one is wanted, also when the text (a rendered chat
   * template, say) already starts with it.
   */
  encode(text: string, { specialTokens = true, addBos = this.addBos }: EncodeOptions = {}): number[] {
    const { raw, normalised } = this.splitters[specialTokens === true ? 'special' : 'text'];
    const { normalizer } = this.pipeline;
    const ids: number[] = [];
    raw(text).forEach((section, index) => {
      if (typeof section === 'number') {
        ids.push(section);
        return;
      }
      normalised(normalizer ? normalizer.normalize(section) : section).forEach((piece, inner) => {
        if (typeof piece === 'number') ids.push(piece);
        else this.encodePlain(piece, index + inner, ids);
      });
    });
    if (addBos) {
      if (this.bosId === undefined) throw new UsageError('the tokenizer has no BOS token to start a text with');
      if (ids[0] !== this.bosId) ids.unshift(this.bosId);
    }
    return ids;
  }

  /**
   * The text of ids, without any clean-up, so that it is the text they were made from.
   * @throws CalmError on an id outside the vocabulary
   */
  decode(ids: readonly number[], { skipSpecial = false }: { skipSpecial?: boolean } = {}): string {
    const unknown = ids.find((id) => this.tokenOf(id) === undefined);
    if (unknown !== undefined) throw new CalmError(`token id ${unknown} is not one of the ${this.vocabSize} tokens`);
    if (ids.length === 0) return '';
    return this.pipeline.decode([...ids], { skip_special_tokens: skipSpecial, clean_up_tokenization_spaces: false });
  }

  /** The id of a token as the vocabulary spells it (`Ġthe`, `▁the`), undefined if it is none. */
  idOf(token: string): number | undefined {
    return this.pipeline.model.tokens_to_ids.get(token);
  }

  /** The token of an id as the vocabulary spells it, undefined if there is none. */
  tokenOf(id: number): string | undefined {
    return this.pipeline.model.vocab[id];
  }

  /** `section` is 0 at the start of the text, where some pre-tokenisers put a space. */
  private encodePlain(text: string, section: number, ids: number[]): void {
    const { pre_tokenizer, model } = this.pipeline;
    const words = pre_tokenizer ? pre_tokenizer.pre_tokenize(text, { section_index: section }) : [text];
    for (const token of model(words)) {
      const id = model.tokens_to_ids.get(token) ?? model.unk_token_id;
      if (id === undefined) throw new CalmError(`the tokenizer has no id for ${JSON.stringify(token)}`);
      ids.push(id);
    }
  }

  private specialId(kind: string, token: string | undefined): number | undefined {
    if (token === undefined) return undefined;
    const id = this.idOf(token);
    if (id === undefined) throw new CalmError(`the tokenizer's ${kind} token ${token} is not in its vocabulary`);
    return id;
  }

  private splittersOf(added: readonly AddedToken[]) {
    const { normalizer } = this.pipeline;
    const normalised = added.filter((token) => token.normalized);
    return {
      raw: addedTokenSplitter(added.filter((token) => !token.normalized)),
      normalised: addedTokenSplitter(
        normalised.map((token) => ({ ...token, content: normalizer?.normalize(token.content) ?? token.content })),
      ),
    };
  }
}

type Splitter = (text: string) => Section[];

function buildPipeline({ json, mergeRanks }: TokenizerSource): LibraryTokenizer {
  const { Tokenizer: Library, ByteFallbackDecoder, SequenceDecoder } = tokenizers;
  const none = { normalizer: null, pre_tokenizer: null, decoder: null };
  const pipeline = new Library({ ...none, ...json, post_processor: null }, {});
  if (mergeRanks) pipeline.model.bpe_ranks = mergeRanks;
  const { decoder } = pipeline;
  for (const step of decoder instanceof SequenceDecoder ? decoder.decoders : [decoder]) {
    // The library's byte decoder swallows U+FEFF.
    if (step instanceof ByteFallbackDecoder) step.text_decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  }
  return pipeline;
}
