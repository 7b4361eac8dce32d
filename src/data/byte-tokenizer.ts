/** Bytes, then these, then a capital letter after a blank for each of A to Z. */
const SPECIAL = ['<s>', '</s>'];
const LETTERS = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZ'];

/** How many tokens `byteTokenizer` has. */
export const BYTE_TOKENS = 256 + SPECIAL.length + LETTERS.length;

/**
 * `tokenizer.json` and `tokenizer_config.json` of a byte-level tokenizer for small models: it reads any text, and its only
 * merges are a blank and a capital letter, so that options can be scored by letter. Ids 0 to 255 are the bytes, 256 `<s>`,
 * 257 `</s>`.
 */
export function byteTokenizer(): { tokenizer: Record<string, unknown>; config: Record<string, unknown> } {
  const tokens = [...byteCharacters(), ...SPECIAL, ...LETTERS.map((letter) => `Ġ${letter}`)];
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true };
  return {
    tokenizer: {
      added_tokens: SPECIAL.map((content, i) => ({ id: 256 + i, content, special: true })),
      normalizer: null,
      pre_tokenizer: byteLevel,
      decoder: byteLevel,
      model: {
        type: 'BPE',
        vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
        merges: LETTERS.map((letter) => ['Ġ', letter]),
      },
    },
    config: { bos_token: '<s>', eos_token: '</s>', add_bos_token: false },
  };
}

/** The characters that stand for the 256 bytes in a byte-level vocabulary (GPT-2's). */
function byteCharacters(): string[] {
  const printable = (b: number) => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  let next = 256;
  return Array.from({ length: 256 }, (_, b) => String.fromCodePoint(printable(b) ? b : next++));
}
