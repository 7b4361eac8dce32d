import { isNumber } from './units';

const words = (text: string, value: (i: number) => number): [string, number][] =>
  text.split(' ').map((word, i) => [word, value(i)]);

const TENS = new Map(words('twenty thirty forty fifty sixty seventy eighty ninety', (i) => 20 + 10 * i));
const SMALL = new Map([
  ...words(
    'zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen',
    (i) => i,
  ),
  ['nought', 0],
]);
const ORDINALS = new Map([
  ...words(
    'first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth',
    (i) => i + 1,
  ),
  ...words('twentieth thirtieth fortieth fiftieth sixtieth seventieth eightieth ninetieth', (i) => 20 + 10 * i),
]);
const SCALES = new Map([
  ['thousand', 1e3],
  ['million', 1e6],
  ['billion', 1e9],
  ['bn', 1e9],
  ['trillion', 1e12],
]);
const ORDINAL_SCALES = new Map([
  ['thousandth', 1e3],
  ['millionth', 1e6],
  ['billionth', 1e9],
]);

interface Read {
  value: number;
  /** The first token after it. */
  end: number;
  ordinal?: boolean;
}

/** 0 to 99 in words. */
function belowHundred(tokens: readonly string[], i: number): Read | undefined {
  const word = tokens[i] ?? '';
  const next = tokens[i + 1] ?? '';
  const tens = TENS.get(word);
  if (tens !== undefined) {
    const unit = SMALL.get(next);
    if (unit !== undefined && unit > 0 && unit < 10) return { value: tens + unit, end: i + 2 };
    const last = ORDINALS.get(next);
    if (last !== undefined && last < 10) return { value: tens + last, end: i + 2, ordinal: true };
    return { value: tens, end: i + 1 };
  }
  const small = SMALL.get(word);
  if (small !== undefined) return { value: small, end: i + 1 };
  const ordinal = ORDINALS.get(word);
  return ordinal === undefined ? undefined : { value: ordinal, end: i + 1, ordinal: true };
}

/** Digits, short enough to be exact when they are multiplied. */
function numeral(tokens: readonly string[], i: number): Read | undefined {
  const token = tokens[i] ?? '';
  return /^\d{1,12}(?:\.\d{1,6})?$/.test(token) ? { value: Number(token), end: i + 1 } : undefined;
}

/** "five", "two hundred and five", "nineteen hundred", "nineteen eighty four", "3 hundred", "hundred", "a hundred". */
function group(tokens: readonly string[], i: number): (Read & { digits?: boolean }) | undefined {
  const one = tokens[i] === 'a' ? { value: 1, end: i + 1 } : { value: 1, end: i };
  const read = belowHundred(tokens, i);
  const digits = read ? undefined : numeral(tokens, i);
  const first: Read = read ?? digits ?? one;
  if (first.ordinal) return first;
  const next = tokens[first.end];
  if (next === 'hundredth') return { value: first.value * 100, end: first.end + 1, ordinal: true };
  if (next === 'hundred') {
    const end = first.end + 1;
    const rest = belowHundred(tokens, tokens[end] === 'and' ? end + 1 : end);
    const value = exact(first.value * 100);
    return rest && rest.value > 0 ? { ...rest, value: value + rest.value } : { value, end };
  }
  if (read && first.value >= 10 && first.value <= 20) {
    const years = belowHundred(tokens, first.end);
    if (years && !years.ordinal && years.value >= 10) return { value: first.value * 100 + years.value, end: years.end };
  }
  if (read) return first;
  const scaled =
    next !== undefined && (SCALES.has(next) || ORDINAL_SCALES.has(next) || (next === 'dozen' && first.end > i));
  return scaled ? { ...first, ...(digits && { digits: true }) } : undefined;
}

/** A whole number: groups, each with a scale that is smaller than the one before, and a last one without. */
function number(tokens: readonly string[], from: number): Read | undefined {
  let total = 0;
  let end = from;
  let below = Infinity;
  for (;;) {
    const part = group(tokens, end > from && tokens[end] === 'and' ? end + 1 : end);
    if (!part) break;
    const next = tokens[part.end] ?? '';
    const scale = SCALES.get(next) ?? ORDINAL_SCALES.get(next);
    if (part.value * (scale ?? 1) >= below || part.ordinal === true || scale === undefined) {
      const fits = part.value < below && scale === undefined && !(part.digits && end > from);
      if (!fits) break;
      return { ...part, value: total + part.value };
    }
    total += exact(part.value * scale);
    end = part.end + 1;
    below = scale;
    if (ORDINAL_SCALES.has(next)) return { value: total, end, ordinal: true };
  }
  return end > from ? { value: total, end } : undefined;
}

/** 1.1 x 1e6 is 1100000.0000000002 in doubles; what was written has fewer digits than that. */
const exact = (value: number): number => Number(value.toPrecision(15));

/** "point one four" or "point 14" as ".14". */
function decimals(tokens: readonly string[], i: number): { text: string; end: number } | undefined {
  if (tokens[i] !== 'point') return undefined;
  let text = '';
  let end = i + 1;
  for (; end < tokens.length; end++) {
    const token = tokens[end]!;
    const value = SMALL.get(token);
    if (value !== undefined && value < 10) text += String(value);
    else if (/^\d+$/.test(token)) text += token;
    else break;
  }
  return text === '' ? undefined : { text: `.${text}`, end };
}

/** "21" as "21st". */
function ordinalOf(value: number): string {
  const tens = Math.floor(value / 10) % 10;
  return `${value}${tens === 1 ? 'th' : (['th', 'st', 'nd', 'rd'][value % 10] ?? 'th')}`;
}

/** A number that starts at a token, as digits. */
function read(tokens: readonly string[], i: number): { text: string; end: number } | undefined {
  // A half of a dozen, or a dozen by itself where no other word makes it a name ("The Dirty Dozen", "baker's dozen").
  const half = tokens[i] === 'half' ? (tokens[i + 1] === 'a' ? i + 2 : i + 1) : i;
  if (tokens[half] === 'dozen' && (half > i || i === 0)) return { text: half > i ? '6' : '12', end: half + 1 };
  const found = number(tokens, i);
  if (!found) return undefined;
  if (found.ordinal) return { text: ordinalOf(found.value), end: found.end };
  if (tokens[found.end] === 'dozen') return { text: String(found.value * 12), end: found.end + 1 };
  const after = decimals(tokens, found.end);
  return after
    ? { text: `${found.value}${after.text}`, end: after.end }
    : { text: String(found.value), end: found.end };
}

/**
 * Number words as digits: cardinals ("twenty one" is "21", "1.5 million" is "1500000", "nineteen eighty four" is "1984",
 * "a dozen" is "12", "three point one" is "3.1") and ordinals ("twenty first" is "21st").
 */
export function readNumbers(tokens: readonly string[]): string[] {
  const out: string[] = [];
  for (let i = 0; i < tokens.length;) {
    const token = tokens[i]!;
    const afterNumber = isNumber(out.at(-1));
    const minus = (token === 'minus' || token === 'negative') && !afterNumber;
    const start = minus ? i + 1 : i;
    // "One second" and "per second" are times, "the second" is a place.
    const found = token === 'second' && (afterNumber || out.at(-1) === 'per') ? undefined : read(tokens, start);
    if (found && !(minus && /[a-z]/.test(found.text))) {
      out.push(minus ? `-${found.text}` : found.text);
      i = found.end;
    } else if (minus && /^\d/.test(tokens[start] ?? '') && isNumber(tokens[start])) {
      out.push(`-${tokens[start]}`);
      i = start + 1;
    } else {
      out.push(token);
      i++;
    }
  }
  return out;
}
