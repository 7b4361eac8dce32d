import { expect, it } from 'vitest';
import { paperTable } from '../../src/experiments/paper';
import { HAS_SHARED, sharedJson } from '../shared';

it('has the paper’s tables', () => {
  expect(paperTable('T1').rows).toContainEqual({ setting: 'OOD', method: 'calm', model: 'Llama-3.1', conf_ece: 0.105, cw_ece: 0.0621, acc_pct: 64.45 }); // prettier-ignore
  expect(() => paperTable('T13')).toThrow('unknown table "T13"');
});

it.skipIf(!HAS_SHARED)('all twelve, as they were transcribed (needs ../shared)', () => {
  const { tables } = sharedJson<{ tables: { id: string }[] }>('paper', 'tables.json');
  expect(tables).toHaveLength(12);
  for (const table of tables) expect(paperTable(table.id)).toEqual(table);
});
