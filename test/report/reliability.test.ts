import { describe, expect, it } from 'vitest';
import { CalmError, UsageError } from '../../src/base/errors';
import { panelOf, reliabilityData, reliabilityDiagram, type ReliabilityRow } from '../../src/report';
import { BINS, BINS_ECE, PANELS, RESULTS } from './sample';

interface DrawnPanel {
  title: { text: string[]; subtitle: string[] };
  data: { values: ReliabilityRow[] };
}
const drawn = (spec: object) => (spec as { concat: DrawnPanel[] }).concat;

describe('reliabilityDiagram', () => {
  it('specifies two panels, one with empty bins', () => {
    expect(reliabilityDiagram(PANELS, { title: 'Both' })).toMatchSnapshot();
  });

  it('names in each title the ECE of the rows that it draws', () => {
    for (const [index, panel] of drawn(reliabilityDiagram(PANELS)).entries()) {
      const rows = panel.data.values;
      const pairs = rows.reduce((sum, row) => sum + row.count, 0);
      const gap = rows.reduce((sum, row) => sum + (row.count / pairs) * Math.abs(row.gap ?? 0), 0);
      const line = panel.title.subtitle.at(-1) ?? '';
      expect(Number(/ECE = (\d\.\d{4})$/.exec(line)?.[1])).toBeCloseTo(gap, 4);
      expect(gap).toBeCloseTo([BINS_ECE, 0.25][index] ?? NaN, 12);
    }
  });

  it('names the kind of ECE and n', () => {
    const [first, second] = drawn(reliabilityDiagram(PANELS));
    expect(first?.title).toEqual({
      text: ['Model A, uncalibrated'],
      subtitle: ['arc_easy, letter scoring', 'n = 50, classwise (total) ECE = 0.0975'],
    });
    expect(second?.title.subtitle).toEqual(['n = 12,345, conf-ECE = 0.2500']);
  });

  it.each([
    [1, 1],
    [2, 2],
    [4, 4],
    [5, 3],
    [6, 3],
    [7, 4],
    [8, 4],
    [9, 3],
  ])('sets %i panels in rows of %i', (panels, columns) => {
    const spec = reliabilityDiagram(Array.from({ length: panels }, () => PANELS[0]!));
    expect(spec['columns']).toBe(columns);
    expect(drawn(spec)).toHaveLength(panels);
  });

  it('takes results as they are', () => {
    expect(reliabilityDiagram(RESULTS)).toEqual(reliabilityDiagram(RESULTS.map((result) => panelOf(result))));
  });

  it('refuses to draw nothing', () => {
    expect(() => reliabilityDiagram([])).toThrow(UsageError);
    expect(() => reliabilityDiagram([{ ...PANELS[0]!, bins: [BINS[2]!] }])).toThrow(CalmError);
  });
});

describe('panelOf', () => {
  it('takes the classwise bins unless asked for confidence', () => {
    const result = RESULTS[1]!;
    expect(panelOf(result)).toEqual({
      title: 'smol_lm, temperature',
      subtitle: 'arc_easy, letter scoring, T = 2.50',
      kind: 'classwise_total',
      n: 300,
      bins: result.bins.classwise_total,
    });
    expect(panelOf(result, 'confidence').bins).toBe(result.bins.confidence);
    expect(panelOf(RESULTS[0]!).title).toBe('smol_lm, uncalibrated');
  });
});

describe('reliabilityData', () => {
  it('is one row a bin, with the signed gap, null where the bin is empty', () => {
    const rows = reliabilityData(PANELS);
    expect(rows).toHaveLength(12);
    expect(rows.map((row) => row.panel)).toEqual([...Array<number>(10).fill(0), 1, 1]);
    expect(rows[0]).toMatchObject({ title: 'Model A, uncalibrated', count: 10, accuracy: 0.2 });
    expect(rows[0]?.gap).toBeCloseTo(-0.15, 12);
    expect(rows[6]?.gap).toBeCloseTo(0.3, 12);
    expect(rows[2]).toMatchObject({ count: 0, mean_confidence: null, accuracy: null, gap: null });
  });
});
