import * as fs from 'node:fs';
import * as path from 'node:path';
import { CalmError } from '../base/errors';
import { fileError, readJsonl } from '../base/files';
import { firstOf } from '../data';
import { CHOICES, findTask } from './tasks';
import type { TaskOptions, TextTask } from './types';

/**
 * Loads texts to measure perplexity on. A `.txt` file is one document; a `.jsonl` file, or a name under a data folder as
 * for `loadTask`, has one a row, in `text` (or `page`, as in lm-evaluation-harness's wikitext, which is detokenised as
 * there).
 * @param options.limit the first n documents; below 1, that share of them
 * @throws UsageError for a name that is not found; CalmError for a file that cannot be read or holds no text
 */
export async function loadTexts(
  name: string,
  { data, split, limit }: Omit<TaskOptions, 'shots'> = {},
): Promise<TextTask> {
  if (path.extname(name) === '.txt') {
    const { name: base } = path.parse(name);
    const text = readText(name);
    if (text.trim() === '') throw new CalmError(`${name} is empty`);
    const docs = [{ id: base, text }];
    return { name: base, version: 1, source: name, split: 'all', docs, skipped: [] };
  }
  const { task, file, split: found } = findTask(name, data, split, CHOICES);
  const docs: TextTask['docs'][number][] = [];
  const skipped: { line: number; reason: string }[] = [];
  for await (const { value, line } of readJsonl(file)) {
    const { id, text, page } = (typeof value === 'object' && value !== null ? value : {}) as Record<string, unknown>;
    const from = text ?? page;
    const known = typeof id === 'string' || typeof id === 'number' ? String(id) : `${path.parse(file).name}-${line}`;
    if (typeof from !== 'string' || from.trim() === '') {
      skipped.push({ line, reason: 'neither "text" nor "page" holds a text' });
    } else if (text === undefined) {
      docs.push({ id: known, text: detokeniseWikitext(from), counted: from });
    } else {
      docs.push({ id: known, text: from });
    }
    if (limit !== undefined && limit >= 1 && docs.length >= limit) break;
  }
  const [first] = skipped;
  if (docs.length === 0) {
    throw new CalmError(`${file} holds no text`, first && { remedy: `line ${first.line}: ${first.reason}` });
  }
  return { name: task, version: 1, source: file, split: found, docs: firstOf(docs, limit), skipped };
}

function readText(file: string): string {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch (error) {
    throw fileError(error, file, 'read');
  }
}

/**
 * Undoes the tokenisation of WikiText (Merity et al. 2016), replacement by replacement as lm-evaluation-harness does,
 * its oddities included, so that perplexities are comparable.
 */
export function detokeniseWikitext(page: string): string {
  return page
    .replaceAll("s '", "s'")
    .replace(/\/' [0-9]\//g, "/'[0-9]/")
    .replaceAll(' @-@ ', '-')
    .replaceAll(' @,@ ', ',')
    .replaceAll(' @.@ ', '.')
    .replaceAll(' : ', ': ')
    .replaceAll(' ; ', '; ')
    .replaceAll(' . ', '. ')
    .replaceAll(' ! ', '! ')
    .replaceAll(' ? ', '? ')
    .replaceAll(' , ', ', ')
    .replace(/\(\s*([^)]*?)\s*\)/g, '($1)')
    .replace(/\[\s*([^\]]*?)\s*\]/g, '[$1]')
    .replace(/\{\s*([^}]*?)\s*\}/g, '{$1}')
    .replace(/"\s*([^"]*?)\s*"/g, '"$1"')
    .replace(/'\s*([^']*?)\s*'/g, "'$1'")
    .replaceAll('= = = =', '====')
    .replaceAll('= = =', '===')
    .replaceAll('= =', '==')
    .replaceAll(' ° ', '°')
    .replaceAll(' \n', '\n')
    .replaceAll('\n ', '\n')
    .replaceAll(' N ', ' 1 ')
    .replaceAll(" 's", "'s");
}
