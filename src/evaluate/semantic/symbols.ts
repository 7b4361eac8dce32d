import { readDigitDates } from './dates';
import { ATTACHED } from './units';

const CURRENCIES: Readonly<Record<string, string>> = {
  $: 'dollar',
  '€': 'euro',
  '£': 'pound',
  '¥': 'yen',
  '₹': 'rupee',
  '₩': 'won',
  '¢': 'cent',
  usd: 'dollar',
  eur: 'euro',
  gbp: 'pound',
  jpy: 'yen',
};
const SHORT_SCALES: Readonly<Record<string, string>> = { k: 'thousand', m: 'million', mn: 'million', b: 'billion' };

const NUMBER = String.raw`\d+(?:\.\d+)?`;
const AMOUNT = new RegExp(
  String.raw`(?<![\p{L}\p{N}])(?:us(?=[$]))?([$€£¥₹₩]|(?:usd|eur|gbp|jpy)(?=\s?\d))\s?(${NUMBER})(?:\s?(k|mn?|b|bn|million|billion|trillion|thousand)(?!\p{L}))?`,
  'gu',
);
const UNIT = new RegExp(String.raw`(?<=\d)(?=(?:${ATTACHED.join('|')}|bn|million|billion)(?![\p{L}\p{N}]))`, 'gu');
/** "U.S.A.", "J. R. R.": letters with stops between them. */
const INITIALS = /(?<![\p{L}\p{N}.])\p{L}(?:\. ?\p{L})+(?:\.|(?![\p{L}\p{N}]))/gu;

/**
 * The words of a folded text, with its signs read: amounts of money, percent, degrees, feet and inches as words; digits
 * without grouping; numbers with their sign, decimals, ratio, time or power; initials joined; other punctuation dropped.
 */
export function readSymbols(folded: string): string[] {
  return readDigitDates(folded)
    .replace(/(?<!\d)(\d) ?' ?(\d{1,2})(?![\d']) ?(?:"|''?)?/g, '$1 foot $2 inch ') // 6'2"
    .replace(INITIALS, (letters) => letters.replace(/[. ]/g, ''))
    .replace(/'/g, '')
    .replace(/(?<![\d.,])\d{1,3}(?:,\d{3})+(?!,?\d)/g, (digits) => digits.replace(/,/g, ''))
    .replace(/(?<![\d\p{L}.])\.(?=\d)/gu, '0.')
    .replace(/(?<![\d.])(\d+)\.0+(?![\d.]*\d)/g, '$1')
    .replace(/(?<=\d):00(?= ?[ap]m\b)/g, '')
    .replace(AMOUNT, (_, sign: string, amount: string, scale: string | undefined) => {
      const words = scale === undefined ? '' : `${SHORT_SCALES[scale] ?? scale} `;
      return ` ${amount} ${words}${CURRENCIES[sign]} `;
    })
    .replace(/(?<=\d) ?([$€£¥₹₩¢])/gu, (_, sign: string) => ` ${CURRENCIES[sign]} `)
    .replace(UNIT, ' ')
    .replace(/\/(?<=\d ?[a-z]{1,20}\/)(?=[a-z])/g, ' per ') // 5 km/h
    .replace(/%/g, ' percent ')
    .replace(/°/g, ' degree ')
    .replace(/&/g, ' and ')
    .replace(/×/g, ' x ')
    .replace(/(?<=\d)(?:-| - )(?=\d)/g, (dash, at: number, all: string) => (all[at - 1] === '^' ? dash : ' to '))
    .replace(/(?<=\p{L})\^(?=\d)/gu, '') // mc^2 is mc2, as mc² is
    .replace(/(?<!\d)\^|\^(?!-?\d)|[|~¬¨¯¸]/g, ' ')
    .replace(/(?<=^|\s)\+(?=\d)/g, '')
    .replace(/(?![+~|^])\p{Sm}|(?<![\p{L}+])\+/gu, ' $& ') // x > 3, but C++
    .replace(DROPPED, ' ')
    .split(' ')
    .filter((token) => token !== '');
}

/**
 * All punctuation but decimal points, times, ratios, powers, the sign of a number, blood types and grades (A-), and C#;
 * separators, what is not assigned to a character, and marks on nothing.
 */
const DROPPED =
  /(?!(?<=\d)[.:/](?=\d)|(?<=^|\s|\^)-(?=\d)|(?<=(?:^|\s)(?:ab|[a-z]))-(?=\s|$)|(?<=(?:^|\s)[a-z])#(?=\s|$))[\p{P}\p{Z}\p{Cs}\p{Co}\p{Cn}]|(?<![\p{L}\p{M}\p{N}\p{S}])\p{M}+/gu;
