import { z } from 'zod';
import { CalmError } from '../base/errors';
import { readJsonl } from '../base/files';
import type { Tokenizer } from '../data';

/** A prompt with an answer that is preferred to another, as token ids. */
export interface PreferencePair {
  id: string;
  prompt: readonly number[];
  chosen: readonly number[];
  rejected: readonly number[];
}

const text = z.string().refine((value) => value.trim() !== '', 'is blank');
const ROW = z
  .object({ prompt: text, chosen: text, rejected: text, id: z.union([z.string(), z.number()]).optional() })
  .refine(({ chosen, rejected }) => chosen !== rejected, { path: ['rejected'], message: 'is the chosen answer' });

export interface Preferences {
  file: string;
  pairs: PreferencePair[];
  /** Rows that cannot be used, with the reason. */
  skipped: { line: number; reason: string }[];
  /** Rows that exceed the model's context; they are left out. */
  tooLong: string[];
}

/**
 * Reads rows `{prompt, chosen, rejected}` and encodes them: an answer follows its prompt as it stands, and ends with the
 * model's end token.
 * @param render how a prompt is put, such as into a chat template; as it is when absent
 * @throws CalmError when the file is missing, empty or not JSON lines, or no row can be used
 */
export async function readPreferences(
  file: string,
  tokenizer: Tokenizer,
  {
    maxPositions,
    limit = Infinity,
    render = (prompt: string) => prompt,
  }: { maxPositions: number; limit?: number; render?: (prompt: string) => string },
): Promise<Preferences> {
  const out: Preferences = { file, pairs: [], skipped: [], tooLong: [] };
  const end = tokenizer.eosId === undefined ? [] : [tokenizer.eosId];
  for await (const { value, line } of readJsonl(file)) {
    const row = ROW.safeParse(value);
    if (!row.success) {
      const issue = row.error.issues[0]!;
      out.skipped.push({ line, reason: `field "${issue.path.join('.')}": ${issue.message}` });
      continue;
    }
    const { prompt, id = `line ${line}` } = row.data;
    const answer = (words: string) => [...tokenizer.encode(words, { addBos: false }), ...end];
    const pair = {
      id: String(id),
      prompt: tokenizer.encode(render(prompt)),
      chosen: answer(row.data.chosen),
      rejected: answer(row.data.rejected),
    };
    const longest = pair.prompt.length + Math.max(pair.chosen.length, pair.rejected.length) - 1;
    if (longest > maxPositions) out.tooLong.push(pair.id);
    else out.pairs.push(pair);
    if (out.pairs.length >= limit) break;
  }
  if (out.pairs.length === 0) {
    const [first] = out.skipped;
    const why = first ? `line ${first.line}: ${first.reason}` : `every row exceeds the model's ${maxPositions} tokens`;
    throw new CalmError(`${file}: no row can be used; ${why}`, {
      remedy: 'expected rows {"prompt", "chosen", "rejected"}',
    });
  }
  return out;
}
