import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { normaliseAnswer, shortAnswer } from '../../../src/evaluate/semantic';

/** Texts of one meaning for each normalised form. */
const FORMS: Record<string, Record<string, string[]>> = {
  'case, space and punctuation': {
    paris: [
      'Paris',
      ' PARIS ',
      'Paris.',
      '"Paris"',
      '“Paris”',
      '**Paris**',
      '(Paris)',
      'Paris!',
      'Paris\u00a0',
      '\u200bParis',
    ],
    'manchester united': ['Manchester  United', 'manchester\tunited', 'Manchester\nUnited', 'Manchester-United'],
    'wall e': ['WALL·E', 'Wall-E', 'Wall–E'],
    'rock n roll': ["rock 'n' roll", 'Rock ’n’ Roll', 'ROCK ‘N’ ROLL'],
    obrien: ["O'Brien", 'O’Brien', 'O´Brien', 'O`Brien'],
    'brooks and dunn': ['Brooks & Dunn', 'Brooks&Dunn', 'Brooks and Dunn'],
  },
  'articles and what introduces an answer': {
    beatles: [
      'The Beatles',
      'the Beatles',
      'Beatles',
      'Beatles, The',
      'It is the Beatles.',
      'The answer is: The Beatles',
      'It was The Beatles',
    ],
    apple: [
      'an apple',
      'An Apple',
      "It's an apple",
      'The correct answer is an apple.',
      'A: an apple',
      'Answer: apple',
      'I think it was an apple',
      'That would be an apple',
      'Sure, an apple',
      'the answer to this question is an apple',
    ],
    'vitamin a': ['Vitamin A', 'vitamin a'],
    'a negative': ['A negative'],
    'negative charge': ['a negative charge'],
    'a minor': ['A minor', 'It is A minor'],
    'alexander the great': ['Alexander the Great'],
    the: ['The The', 'The'],
    it: ['It', 'It.'],
    'it is': ['It is', 'It is.'],
    'in bruges': ['In Bruges'],
    'on the road': ['On the Road'],
    'this is spinal tap': ['This Is Spinal Tap'],
    'i think therefore i am': ['I think, therefore I am', 'I think therefore I am'],
    '64': ['There are 64', 'sixty-four'],
  },
  Unicode: {
    encyclopaedia: ['Encyclopædia', 'encyclopaedia', 'ENCYCLOPÆDIA'],
    pele: ['Pelé', 'Pele\u0301', 'PELÉ'],
    'martin odegaard': ['Martin Ødegaard', 'Martin Odegaard'],
    friedrichstrasse: ['Friedrichstraße', 'FRIEDRICHSTRASSE', 'FRIEDRICHSTRAẞE'],
    lodz: ['Łódź', 'Lodz'],
    istanbul: ['İstanbul', 'Istanbul', 'ıstanbul'],
    'viet nam': ['Việt Nam', 'Viet Nam'],
    hawaii: ['Hawaiʻi', 'Hawai‘i', 'Hawaii'],
    sony: ['ＳＯＮＹ', 'Sony', '𝐒𝐨𝐧𝐲'],
    final: ['ﬁnal', 'final'],
    lego: ['Lego™', 'LEGO®'],
    αθηνα: ['Αθήνα', 'ΑΘΉΝΑ'],
    οδοσ: ['οδός', 'ΟΔΟΣ'],
    алена: ['Алёна', 'Алена'],
    чайковский: ['Чайковский'],
    北京: ['北京', '北京。', '「北京」'],
    東京: ['東京'],
    ガ: ['ガ', 'ｶﾞ', 'カ\u3099'],
    한국: ['한국', '한국'.normalize('NFD')],
    القاهرة: ['القاهرة', 'القاهرة.', 'القاهرة؟'],
    مُحَمَّد: ['مُحَمَّد'],
    'नई दिल्ली': ['नई दिल्ली', 'नई दिल्ली।'],
    กรุงเทพ: ['กรุงเทพ'],
    '🇨🇦': ['🇨🇦', '🇨🇦.'],
    '🏴󠁧󠁢󠁳󠁣󠁴󠁿': ['🏴󠁧󠁢󠁳󠁣󠁴󠁿'],
    '❤': ['❤', '❤️'],
    '1': ['1️⃣', '①', '١', '१', '１', 'one'],
    '1969': ['١٩٦٩', '१९६९', '１９６９'],
    '?': ['?', '？'],
    '...': ['...', '…'],
    '': ['', ' ', '\n\t', '\u200b', '\ufeff'],
  },
  'number words': {
    '0': ['zero', 'nought', '0'],
    '12': ['twelve', 'a dozen', 'one dozen', 'dozen', '12'],
    '6': ['six', 'half a dozen', 'half dozen'],
    '24': ['two dozen', 'twenty-four', 'twenty four'],
    'dirty dozen': ['The Dirty Dozen'],
    'bakers dozen': ["a baker's dozen"],
    '21': ['twenty-one', 'twenty one', 'Twenty–One'],
    '100': ['a hundred', 'one hundred', 'hundred', '100'],
    '105': ['one hundred and five', 'one hundred five', '105'],
    '366': ['three hundred and sixty-six', '366'],
    '1900': ['nineteen hundred', '1900'],
    '1984': ['nineteen eighty-four', '1984'],
    '1066': ['ten sixty-six', '1066'],
    '2001': ['two thousand and one', 'two thousand one', '2001'],
    '1234567': ['one million two hundred thirty-four thousand five hundred and sixty-seven', '1,234,567'],
    '999999': ['nine hundred ninety-nine thousand nine hundred ninety-nine'],
    '1000000': ['a million', 'one million', '1 million', '1,000,000', "1'000'000", '1\u202f000\u202f000', 'million'],
    '1100000': ['1.1 million', '1,100,000'],
    '5000000000': ['5bn', '5 billion', 'five billion'],
    '1 and 2': ['one and two'],
    '1 20': ['one twenty'],
    'several hundreds': ['several hundreds'],
    '3.14': ['3.14', 'three point one four', 'three point 14'],
    '0.5': ['.5', '0.5', 'zero point five'],
    '5': ['5.0', '5.00', 'five'],
    '3.10': ['3.10'],
    '-40': ['-40', '−40', 'minus forty', 'negative forty', 'minus 40'],
    '1/2': ['½', '1/2', '1⁄2'],
    '5 1/2': ['5½', '5 1/2'],
    '10^6': ['10⁶', '10^6'],
    '10^-3': ['10⁻³', '10^-3'],
    '007': ['007'],
    '192.168.1.0': ['192.168.1.0'],
    '3 to 2': ['3-2', '3–2', '3 to 2', 'three to two'],
    '2:30': ['2:30'],
    '3 pm': ['3 pm', '3pm', '3 p.m.', '3:00 PM'],
    '50': ['about 50', 'approximately fifty', '~50', 'around 50', '+50'],
    'x > 3': ['x > 3', 'x>3'],
    'e = mc2': ['E = mc²', 'E=mc^2', 'e = mc2'],
  },
  ordinals: {
    '1st': ['first', '1st', 'the First'],
    '2nd': ['second', 'the 2nd'],
    '3rd': ['third'],
    '11th': ['eleventh', '11th'],
    '12th': ['twelfth'],
    '21st': ['twenty-first', '21st'],
    '22nd': ['twenty-second'],
    '100th': ['hundredth', 'one hundredth', '100th'],
    '101st': ['one hundred and first'],
    '111th': ['one hundred and eleventh'],
    '2000th': ['two thousandth'],
    '19th century': ['nineteenth century', 'the 19th century'],
    '1 second': ['one second', '1 second', '1 s', '1 sec'],
  },
  'Roman numerals and names': {
    'louis 14': ['Louis XIV', 'Louis the Fourteenth', 'Louis the 14th', 'Louis 14'],
    'world war 2': ['World War II', 'World War Two', 'world war 2'],
    'world war 1': ['World War I', 'World War One'],
    'elizabeth 1 of england': ['Elizabeth I of England'],
    'henry 8': ['Henry VIII'],
    xi: ['Xi'],
    'you and i know': ['you and I know'],
    'jrr tolkien': ['J. R. R. Tolkien', 'J.R.R. Tolkien', 'JRR Tolkien', 'J R R Tolkien'],
    'aa milne': ['A. A. Milne', 'A.A. Milne', 'AA Milne'],
    usa: ['U.S.A.', 'USA', 'U. S. A.', 'the U.S.A'],
    'mount saint helens': ['Mt. St. Helens', 'Mount Saint Helens', 'Mount St Helens'],
    'wall st': ['Wall St.'],
    'doctor who': ['Dr. Who', 'Doctor Who'],
    'martin luther king junior': ['Martin Luther King, Jr.', 'Martin Luther King Junior'],
    'c++': ['C++'],
    'c#': ['C#'],
    c: ['C'],
    'a+': ['A+', 'an A+'],
    'o-': ['O-', 'O−'],
    ke$ha: ['Ke$ha'],
  },
  units: {
    '5 kilometre': ['5 km', '5km', 'five kilometres', '5 kilometers', '5 kms'],
    '1 kilogram': ['1 kg', 'one kilogram', '1 kilo', '1kg'],
    kilogram: ['kg', 'kilogram', 'the kilogram', 'kilograms'],
    '100 degree celsius': [
      '100 °C',
      '100°C',
      '100 ℃',
      '100 degrees Celsius',
      '100 degrees centigrade',
      '100º C',
      'one hundred degrees C',
    ],
    '-10 degree celsius': ['-10 °C', 'minus ten degrees Celsius'],
    '273 kelvin': ['273 K', '273 kelvins'],
    '50 kilometre per hour': ['50 km/h', '50 kph', '50 kmh', 'fifty kilometres per hour', '50 km per hour', '50 km/hr'],
    '70 mile per hour': ['70 mph', '70 miles per hour', '70mph'],
    '300000 kilometre per second': ['300,000 km/s', '300000 kilometers per second'],
    '25 square kilometre': ['25 km²', '25 km2', '25 km^2', '25 sq km', '25 square kilometers', '25 sq. km'],
    '6 foot 2 inch': ['6\'2"', '6′2″', '6 ft 2 inches', '6 feet 2 inches'],
    '50 percent': ['50%', '50 %', 'fifty percent', '50 per cent', '50 pct'],
    '5 dollar': ['$5', '$5.00', '5 dollars', 'US$5', 'USD 5', '5 USD', '5 US dollars', 'five dollars', '5$'],
    '1500000 dollar': ['$1.5 million', '$1.5m', '$1,500,000', '1.5 million dollars'],
    '5 pound': ['£5', '5 pounds', '5 lbs', '5 pounds sterling'],
    '20 euro': ['€20', '20 €', '20 euros', 'EUR 20'],
    '4 light year': ['4 light-years', '4 light years', '4 ly'],
    '300 year': ['300 years', '300 yrs'],
    a$5: ['A$5'],
    gb: ['GB', 'G.B.'],
    '5 in 1990': ['5 in 1990'],
  },
  dates: {
    '4 july 1776': [
      '4 July 1776',
      'July 4, 1776',
      'July 4th, 1776',
      '4th July 1776',
      'the 4th of July, 1776',
      'the fourth of July 1776',
      'July the fourth, 1776',
      'Jul. 4, 1776',
      '4-Jul-1776',
      'Thursday, July 4, 1776',
      'on Thursday 4 July 1776',
      '1776-07-04',
      '1776/7/4',
      '1776 July 4',
      'It was on July 4, 1776.',
      'the fourth of July, seventeen seventy-six',
    ],
    '13 july 1776': ['13/07/1776', '07/13/1776', '13.7.1776', '13-07-1776'],
    '4 april 1776': ['04/04/1776'],
    '4/7/1776': ['04/07/1776', '4/7/1776', '04-07-1776'],
    '40/50/1776': ['40/50/1776'],
    'july 1776': ['July 1776', 'July, 1776', 'July of 1776', 'in July 1776', 'Jul 1776'],
    '4 july': ['July 4', '4 July', 'the 4th of July', 'July 4th', 'on the 4th of July'],
    july: ['July', 'in July'],
    'july 76': ['July 76'],
    mar: ['Mar'],
    '1776': [
      '1776',
      'in 1776',
      'the year 1776',
      'in the year 1776',
      'circa 1776',
      'AD 1776',
      '1776 CE',
      '1776 A.D.',
      'around 1776',
    ],
    '44 bc': ['44 BC', '44 B.C.', '44 BCE'],
    '4th century bc': ['4th century BC', 'fourth century BCE'],
    '1960s': ['the 1960s', "1960's", 'in the 1960s', '1960’s'],
    '1939 to 1945': ['1939–1945', '1939-1945', '1939 - 1945', 'from 1939 to 1945', '1939 to 1945'],
    '9/11': ['9/11'],
  },
};

describe('normaliseAnswer', () => {
  for (const [category, forms] of Object.entries(FORMS)) {
    it.each(Object.entries(forms))(`${category}: %s`, (form, texts) => {
      expect(texts.map((text) => [text, normaliseAnswer(text)])).toEqual(texts.map((text) => [text, form]));
    });
  }

  it('keeps apart what differs', () => {
    const different = [
      'A+',
      'A',
      'A-',
      'B',
      'C',
      'C#',
      'C++',
      '5',
      '-5',
      '1/5',
      '5 km',
      '5 m',
      '$5',
      '5%',
      '?',
      '!',
      '♂',
      '♀',
    ];
    expect(new Set(different.map(normaliseAnswer)).size).toBe(different.length);
  });

  /** Pieces that its rules look at, in any order. */
  const pieces =
    `the a an answer is : it's it was i think in on at about year 4 4th july jul july, 1776, 1776-07-04 13/07/1776
    thursday of bc ad one two twenty twenty-one hundred thousand million bn and dozen half second seconds first minus - -5 − 5.0
    3.14 1,000 , . ... ; ' 's " $ $5 £5m 5km m km/h kg % ° c degrees per cent square us us$5 point ½ ² 10⁶ ^ j. r. a. u.s.a. st.
    mt jr i v ii xiv A+ O- C# C++ + = < & × ~ | 6'2" 1939–1945 to 3:00 p.m. é ß İ 北京 한국 हिन्दी نَ ١٢ 🇨🇦 1️⃣ \u0301 \u200d \u3164
    \ud800 ´ ( ] ** _ / ™ ﬁ ℃ Ⅳ from circa hundredth`.split(/\s+/);
  const separators = [' ', ' ', '', '  ', ', ', '-', '\n'];
  const mixed = fc
    .array(fc.tuple(fc.constantFrom(...pieces), fc.constantFrom(...separators)), { maxLength: 9 })
    .map((parts) => parts.flat().join(''));
  const texts = fc.oneof(mixed, fc.string({ unit: 'binary' }), fc.string({ unit: 'grapheme' }), fc.string());

  it('changes nothing the second time, and leaves something of every letter and digit', () => {
    fc.assert(
      fc.property(texts, (text) => {
        const once = normaliseAnswer(text);
        expect(normaliseAnswer(once)).toBe(once);
        expect(once).toBe(once.trim());
        expect(once).not.toMatch(/\s\s|[\n\t]/);
        if (/[\p{L}\p{N}]/u.test(text)) expect(once).not.toBe('');
      }),
      { numRuns: 3000 },
    );
  });

  it('does not depend on case or Unicode form', () => {
    const words = fc.array(
      fc.constantFrom('Ångström', 'Zoë', 'ŒUVRE', 'twenty-One', 'St. Louis', 'U.S.A.', '5 KM', '東京'),
    );
    fc.assert(
      fc.property(words, (parts) => {
        const text = parts.join(' ');
        const form = normaliseAnswer(text);
        for (const other of [text.toLowerCase(), text.normalize('NFD'), text.normalize('NFKC')]) {
          expect(normaliseAnswer(other)).toBe(form);
        }
      }),
    );
  });

  it('reads every number word from 0 to 9,999 and its ordinal', () => {
    const small =
      'zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen'.split(
        ' ',
      );
    const tens = '- - twenty thirty forty fifty sixty seventy eighty ninety'.split(' ');
    const words = (n: number): string => {
      if (n < 20) return small[n]!;
      if (n < 100) return tens[Math.floor(n / 10)]! + (n % 10 ? `-${small[n % 10]}` : '');
      const [unit, name] = n < 1000 ? [100, 'hundred'] : [1000, 'thousand'];
      const rest = n % unit;
      return `${words(Math.floor(n / unit))} ${name}${rest ? `${rest < 100 ? ' and' : ''} ${words(rest)}` : ''}`;
    };
    for (let n = 0; n < 10000; n++) expect(normaliseAnswer(words(n))).toBe(String(n));
  });

  it('takes long and odd texts in a short time', () => {
    const long = [
      'word ',
      'one hundred and ',
      'the ',
      'it is ',
      'a.',
      '1,',
      '5 km/',
      "'",
      'july 4 ',
      '1-',
      'x',
      '\u0301',
      '北京',
    ];
    const started = performance.now();
    for (const text of long) expect(normaliseAnswer(text.repeat(1000))).not.toBe('');
    expect(performance.now() - started).toBeLessThan(2000);
    expect(normaliseAnswer('word '.repeat(1000)).split(' ')).toHaveLength(1000);
    expect(normaliseAnswer('<|im_end|>')).toBe('< im end >');
    expect(normaliseAnswer('</s>')).toBe('< s >');
    expect(normaliseAnswer('—')).toBe('-');
    expect(normaliseAnswer('.,;')).toBe('.,;');
  });
});

describe('shortAnswer', () => {
  it.each([
    ['Paris', 'Paris'],
    ['  Paris \nQ: What is', 'Paris'],
    ['\n\nParis\r\nLyon', 'Paris'],
    ['Paris\u2028Lyon', 'Paris'],
    ['St. Louis. It is in Missouri.', 'St. Louis. It is in Missouri.'],
    ['', ''],
    [' \n ', ''],
  ])('%j is %j', (text, short) => expect(shortAnswer(text)).toBe(short));
});
