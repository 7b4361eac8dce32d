/** Short forms before a name, which mean something else at the end (Main St, Rodeo Dr). */
const BEFORE: Readonly<Record<string, string>> = { st: 'saint', mt: 'mount', dr: 'doctor' };
const ANYWHERE: Readonly<Record<string, string>> = { jr: 'junior', sr: 'senior', vs: 'versus' };

/** 2 to 39, and 1, 5 and 10, which are letters as well. */
const ROMAN = /^(?=..)x{0,3}(?:ix|iv|v?i{0,3})$/;
const LETTER = /^[ivx]$/;
const VALUES: Readonly<Record<string, number>> = { i: 1, v: 5, x: 10 };

function roman(text: string): string {
  const values = [...text].map((letter) => VALUES[letter]!);
  return String(values.reduce((sum, value, i) => sum + (value < (values[i + 1] ?? 0) ? -value : value), 0));
}

/**
 * Parts of names in one form: initials joined ("J R R" is "jrr", as "J.R.R." is), "St", "Mt", "Dr", "Jr", "Sr" and "vs" in
 * full, Roman numerals after a word as digits ("Louis XIV" is "louis 14", and so is "Louis the Fourteenth").
 */
export function readNames(tokens: readonly string[]): string[] {
  const out: string[] = [];
  tokens.forEach((token, i) => {
    const before = tokens[i - 1];
    const next = tokens[i + 1];
    const word = before !== undefined && /^[\p{L}\p{M}]{2,}$/u.test(before);
    const ends = next === undefined || next === 'of' || next === 'and' || next === 'was' || next === 'in';
    if (word && (ROMAN.test(token) || (LETTER.test(token) && ends))) out.push(roman(token));
    else if (isInitial(token) && before !== undefined && isInitial(before)) out.push(out.pop()! + token);
    else if (next !== undefined && Object.hasOwn(BEFORE, token)) out.push(BEFORE[token]!);
    else out.push(Object.hasOwn(ANYWHERE, token) ? ANYWHERE[token]! : token);
  });
  const regnal = /^(\d+)(?:st|nd|rd|th)$/.exec(out.at(-1) ?? '');
  if (regnal && out.length > 2 && out.at(-2) === 'the') out.splice(-2, 2, regnal[1]!);
  return out;
}

/** A single letter that is not a word by itself. */
const isInitial = (token: string): boolean => /^[b-hj-z]$/.test(token);
