/**
 * Units by their name in the singular, with their other spellings; the plural in -s is understood. Letters that are more
 * often something else are left out ("in", "t", "v"). Weight and money share "pound": one question asks for one of them.
 */
const SPELLINGS: Readonly<Record<string, string>> = {
  kilometre: 'km kms kilometer kilometers',
  metre: 'm meter meters',
  centimetre: 'cm cms centimeter centimeters',
  millimetre: 'mm millimeter millimeters',
  nanometre: 'nm nanometer nanometers',
  mile: 'mi',
  yard: 'yd yds',
  foot: 'ft feet',
  inch: 'inches',
  'light year': 'ly lightyear lightyears',
  'astronomical unit': 'au',
  hectare: 'ha',
  acre: '',
  kilogram: 'kg kgs kilo kilos kilogramme kilogrammes',
  gram: 'g gramme grammes',
  milligram: 'mg',
  tonne: '',
  ton: '',
  ounce: 'oz',
  pound: 'lb lbs gbp quid',
  litre: 'l liter liters',
  millilitre: 'ml milliliter milliliters',
  gallon: 'gal',
  second: 's sec secs',
  minute: 'min mins',
  hour: 'h hr hrs',
  day: '',
  week: 'wk wks',
  month: '',
  year: 'yr yrs',
  hertz: 'hz',
  kilohertz: 'khz',
  megahertz: 'mhz',
  gigahertz: 'ghz',
  volt: '',
  watt: 'w',
  kilowatt: 'kw',
  megawatt: 'mw',
  joule: '',
  newton: '',
  pascal: 'pa',
  ampere: 'amp amps',
  kelvin: 'k',
  byte: '',
  kilobyte: 'kb',
  megabyte: 'mb',
  gigabyte: 'gb',
  terabyte: 'tb',
  calorie: '',
  percent: 'pct',
  degree: 'deg degs',
  dollar: 'usd',
  euro: 'eur',
  yen: 'jpy',
  rupee: 'inr',
  won: 'krw',
  cent: '',
  'kilometre per hour': 'kmh kph',
  'mile per hour': 'mph',
  'square kilometre': 'km2 sqkm',
  'square metre': 'm2 sqm',
  'square mile': 'sqmi',
  'cubic metre': 'm3',
  'cubic kilometre': 'km3',
  am: '',
  pm: '',
};

const UNITS = new Map(
  Object.entries(SPELLINGS).flatMap(([unit, forms]) => {
    const more = unit.endsWith('m') && unit.length === 2 ? [] : [`${unit}s`];
    return [unit, ...more, ...forms.split(' ')].filter(Boolean).map((form): [string, string] => [form, unit]);
  }),
);
const SHAPES: Readonly<Record<string, string>> = { sq: 'square', square: 'square', cu: 'cubic', cubic: 'cubic' };
const SCALES: Readonly<Record<string, string>> = {
  c: 'celsius',
  celsius: 'celsius',
  centigrade: 'celsius',
  f: 'fahrenheit',
  fahrenheit: 'fahrenheit',
  k: 'kelvin',
  kelvin: 'kelvin',
};

/** Of two letters, and a unit even without a number; "GB" and "PA" are places. */
const COMMON = new Set(['km', 'cm', 'mm', 'kg', 'mg', 'ml', 'lb', 'oz', 'hz']);

/** Spellings of units that may follow a number without a space ("5km"); not "s", for the 1960s. */
export const ATTACHED = [...UNITS.keys()].filter((form) => form !== 's' && !form.includes(' '));

export const isNumber = (token: string | undefined): boolean => token !== undefined && /^-?\d[\d.:/^-]*$/.test(token);

/**
 * Units after a number, or as the whole answer, by one name: "5 km", "5 kilometers" and "5 kilometres" are "5 kilometre".
 * Values are not converted: 100 cm is not 1 m.
 */
export function readUnits(tokens: readonly string[]): string[] {
  const out: string[] = [];
  let i = 0;
  /** Reads a unit at `i`, with what stands before and after it, as "square" and "celsius". */
  const unit = (): boolean => {
    const shape = Object.hasOwn(SHAPES, tokens[i]!) ? SHAPES[tokens[i]!] : undefined;
    const currency = tokens[i] === 'us' && UNITS.get(tokens[i + 1]!) === 'dollar';
    const at = shape !== undefined || currency ? i + 1 : i;
    const two = `${tokens[at]} ${tokens[at + 1]}`;
    const name = two === 'per cent' ? 'percent' : (UNITS.get(two) ?? UNITS.get(tokens[at] ?? ''));
    if (name === undefined) return false;
    out.push(...(shape ? [shape] : []), ...name.split(' '));
    i = at + (two === 'per cent' || UNITS.has(two) ? 2 : 1);
    const next = tokens[i];
    if (name === 'degree' && next !== undefined && Object.hasOwn(SCALES, next)) {
      out.push(SCALES[next]!);
      i++;
    } else if (name === 'pound' && next === 'sterling') i++;
    return true;
  };
  while (i < tokens.length) {
    const alone = tokens.length === 1 && (tokens[0]!.length > 2 || COMMON.has(tokens[0]!));
    if ((alone || isNumber(out.at(-1))) && unit()) {
      while (tokens[i] === 'per' && i + 1 < tokens.length) {
        out.push(tokens[i++]!);
        if (!unit()) break;
      }
    } else out.push(tokens[i++]!);
  }
  return out;
}
