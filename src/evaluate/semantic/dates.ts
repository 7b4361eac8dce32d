const MONTHS = [
  'january',
  'february',
  'march',
  'april',
  'may',
  'june',
  'july',
  'august',
  'september',
  'october',
  'november',
  'december',
];
const MONTH = new Map([
  ...MONTHS.flatMap((month): [string, string][] => [
    [month, month],
    [month.slice(0, 3), month],
  ]),
  ['sept', 'september'],
]);
const WEEKDAY = /^(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?$/;

export const isMonth = (token: string | undefined): boolean => token !== undefined && MONTHS.includes(token);

const DAY = /^(0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?$/;
const YEAR = /^\d{3,4}$/;
const dayOf = (token: string | undefined): string | undefined => DAY.exec(token ?? '')?.[1]?.replace(/^0/, '');

/**
 * Dates of digits as words, day first: "1776-07-04" and "13/07/1776" are "4 july 1776" and "13 july 1776". Where day and
 * month could be each other ("04/07/1776") the digits stay, without zeros.
 */
export function readDigitDates(text: string): string {
  const inWords = (day: number, month: number, year: string) => ` ${day} ${MONTHS[month - 1]} ${year} `;
  return text
    .replace(
      /(?<![\d/.-])(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?![\d/.-]*\d)/g,
      (all, year: string, _, m: string, d: string) =>
        isDate(Number(d), Number(m)) ? inWords(Number(d), Number(m), year) : all,
    )
    .replace(
      /(?<![\d/.-])(\d{1,2})([-/.])(\d{1,2})\2(\d{4})(?![\d/.-]*\d)/g,
      (all, a: string, _, b: string, year: string) => {
        const [first, second] = [Number(a), Number(b)];
        const dayFirst = isDate(first, second);
        const monthFirst = isDate(second, first);
        if (dayFirst && monthFirst && first !== second) return `${first}/${second}/${year}`;
        if (dayFirst) return inWords(first, second, year);
        return monthFirst ? inWords(second, first, year) : all;
      },
    );
}

const isDate = (day: number, month: number): boolean => day >= 1 && day <= 31 && month >= 1 && month <= 12;

/**
 * Dates in words, in one order: "July 4th, 1776", "the 4th of July 1776", "Thursday 4 Jul 1776" are "4 july 1776", so that
 * a month and a year still stand side by side; "July of 1776" is "july 1776". "BCE" is "bc"; "AD" and "CE" are dropped.
 */
export function readDates(tokens: readonly string[]): string[] {
  const out: string[] = [];
  const at = (i: number) => tokens[i] ?? '';
  /** The year at a token, with the words before it. */
  const yearAt = (i: number): { year: string; end: number } | undefined => {
    const from = at(i) === 'of' || at(i) === 'in' ? i + 1 : i;
    return YEAR.test(at(from)) ? { year: at(from), end: from + 1 } : undefined;
  };
  /** The date at a token: what to write for it, and where it ends. */
  const dateAt = (i: number): { words: string[]; end: number } | undefined => {
    const first = at(i) === 'the' ? i + 1 : i;
    const day = dayOf(at(first));
    const ofMonth = at(first + 1) === 'of' ? first + 2 : first + 1;
    const month = MONTH.get(at(ofMonth));
    if (day !== undefined && month !== undefined) {
      const year = yearAt(ofMonth + 1);
      return { words: [day, month, ...(year ? [year.year] : [])], end: year?.end ?? ofMonth + 1 };
    }
    const monthFirst = MONTH.get(at(i));
    if (monthFirst !== undefined) {
      const dayAt = at(i + 1) === 'the' ? i + 2 : i + 1;
      const second = dayOf(at(dayAt));
      // Not the day of the next month, as in "July 4 August".
      if (second !== undefined && !(MONTH.has(at(dayAt + 1)) && dayAt === i + 1)) {
        const year = yearAt(dayAt + 1);
        return { words: [second, monthFirst, ...(year ? [year.year] : [])], end: year?.end ?? dayAt + 1 };
      }
      const year = yearAt(i + 1);
      if (year) return { words: [monthFirst, year.year], end: year.end };
    }
    const yearMonth = MONTH.get(at(i + 1));
    const last = dayOf(at(i + 2));
    if (/^\d{4}$/.test(at(i)) && yearMonth !== undefined && last !== undefined) {
      return { words: [last, yearMonth, at(i)], end: i + 3 };
    }
    return undefined;
  };
  for (let i = 0; i < tokens.length;) {
    const token = tokens[i]!;
    const date = dateAt(i);
    if (date) {
      if (date.words.length === 3 && WEEKDAY.test(out.at(-1) ?? '')) out.pop();
      out.push(...date.words);
      i = date.end;
      continue;
    }
    const afterYear = /^\d{1,4}(?:st|nd|rd|th)?$/.test(out.at(-1) ?? '') || out.at(-1) === 'century';
    if (afterYear && (token === 'bce' || token === 'bc')) out.push('bc');
    else if (!(afterYear && (token === 'ad' || token === 'ce')) && !(token === 'ad' && /^\d{1,4}$/.test(at(i + 1)))) {
      out.push(token);
    }
    i++;
  }
  return out;
}
