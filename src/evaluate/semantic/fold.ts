/** Letters that Unicode does not decompose, in the spelling that English texts use for them. */
const LETTERS: Readonly<Record<string, string>> = {
  ß: 'ss',
  æ: 'ae',
  œ: 'oe',
  ø: 'o',
  ð: 'd',
  đ: 'd',
  þ: 'th',
  ł: 'l',
  ħ: 'h',
  ı: 'i',
  ŋ: 'ng',
  ŧ: 't',
  ς: 'σ',
  ё: 'е',
};
const LETTER = new RegExp(`[${Object.keys(LETTERS).join('')}]`, 'gu');

/** Not seen on paper: soft hyphen, joiners, directions, variation selectors, byte order mark. */
const INVISIBLE = /[\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]/gu;
/** Straight in the end: quotes, primes, accents that stand alone, and the letters that transliterations write like them. */
const SINGLE_QUOTE = /[\u0060\u00b4\u2018\u2019\u201a\u201b\u2032\u2039\u203a\u02b9-\u02bf\u02c8\uff07]/gu;
const DOUBLE_QUOTE = /[\u00ab\u00bb\u201c-\u201f\u2033\u300c-\u300f\uff02]/gu;
/** Hyphens, dashes, minus signs. */
const DASH = /[\u2010-\u2015\u2043\u2212\ufe58\ufe63\uff0d]/gu;

/**
 * A text as it is compared, letter by letter: NFKC, lower case, one kind of quote, dash and space, digits of every script
 * as 0 to 9, without accents and ligatures (`Ærø` is `aero`, `Straße` is `strasse`) and without what cannot be seen.
 *
 * Accents are taken off Latin and Greek letters only; in other scripts marks are vowels or other letters and stay.
 * Punctuation stays too.
 */
export function foldText(text: string): string {
  if (/^[ -_a-~]*$/.test(text)) return squeeze(text.toLowerCase()); // ASCII, by far the most, without a grave accent
  return squeeze(
    text
      .replace(INVISIBLE, '')
      .replace(/[\u2122\u2120\u00ae\u00a9]/gu, '') // ™ would become the letters TM
      .replace(/(?<=\d)(?=[\u00bc-\u00be\u2150-\u215e])/gu, ' ') // 5½ is 5 1/2, not 51/2
      .replace(/(?<=\d)(?=[\u2070\u00b9\u00b2\u00b3\u2074-\u207b])/gu, '^') // 10⁶ is 10^6, not 106
      .replace(/(?<=\d)[\u00a0\u2009\u202f](?=\d{3}(?!\d))/gu, '') // spaces that group digits
      .replace(/(?<=\d ?)\u00ba/gu, '°')
      .replace(SINGLE_QUOTE, "'")
      .replace(DOUBLE_QUOTE, '"')
      .normalize('NFKC')
      .replace(DASH, '-')
      .replace(/\u2044/gu, '/')
      .toLowerCase()
      .normalize('NFD')
      .replace(/([\p{Script=Latin}\p{Script=Greek}\p{Nd}])\p{M}+/gu, '$1')
      .normalize('NFC')
      .replace(LETTER, (letter) => LETTERS[letter]!)
      .replace(/\p{Nd}/gu, digit),
  );
}

const squeeze = (text: string): string => text.replace(/[\s\p{Cc}]+/gu, ' ').trim();

/** The value of a decimal digit: every script has ten of them in a row, from zero on. */
function digit(char: string): string {
  let code = char.codePointAt(0)!;
  if (code < 0x80) return char;
  let value = 0;
  while (value < 9 && /\p{Nd}/u.test(String.fromCodePoint(--code))) value++;
  return String(value);
}
