import * as fs from 'node:fs';
import * as path from 'node:path';
import { embedderPlaces } from '../../src/embed/locate';

const FIXTURES = path.join(__dirname, '../fixtures/embed');
export const fixture = (name: string) => path.join(FIXTURES, name);
export const fixtureJson = <T>(name: string) => JSON.parse(fs.readFileSync(fixture(name), 'utf8')) as T;

/** all-MiniLM-L6-v2, where it is installed; tests that need it say so and are skipped without it. */
export const MINILM = embedderPlaces().find((place) => fs.existsSync(path.join(place, 'config.json')));

interface MiniLmIds {
  max_length: number;
  /** A text, or a text and how often it is repeated. */
  texts: (string | [string, number])[];
  ids: number[][];
}

/** Texts in many scripts with the ids that Hugging Face's tokenizers give in Python. */
export function miniLmIds(): { maxLength: number; rows: { text: string; ids: number[] }[] } {
  const { max_length, texts, ids } = fixtureJson<MiniLmIds>('minilm-ids.json');
  const rows = texts.map((row, i) => ({ text: typeof row === 'string' ? row : row[0].repeat(row[1]), ids: ids[i]! }));
  return { maxLength: max_length, rows };
}

export interface TinyRow {
  text: string;
  ids: number[];
  embedding: number[];
}

/** Texts with the ids and unit vectors that transformers gives for the model in `tiny`. */
export const tinyRows = () => fixtureJson<{ rows: TinyRow[] }>('tiny-reference.json').rows;
