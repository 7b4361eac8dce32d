import { describe, expect, it } from 'vitest';
import { besidePaper, claimsOf, figurePanels, sideBySide } from '../../src/experiments/reproduce';
import { paperTable } from '../../src/experiments/paper';
import { checkPlan } from '../../src/experiments/plan';
import { mcqaPlan, planTable, robustnessPlan, runStudy, type Study } from '../../src/experiments/study';
import { summariseRows } from '../../src/experiments/summary';
import type { PointRow } from '../../src/experiments/types';
import { row } from './stub';

const plan = checkPlan({
  name: 'mcqa-test',
  model: 'tiny',
  settings: { OOD: { train: 'a.jsonl', validation: 'b.jsonl', test: 'c.jsonl' } },
  methods: ['ts', { method: 'calm', options: { epochs: 10 }, grid: { lowerRate: [0.1, 0.2] } }],
  seeds: [0, 1],
});

/** A study of these (label, accuracy, conf-ECE on test, half its interval). */
function studyOf(
  points: [label: string, accuracy: number, ece: number, half?: number][],
  changes: Partial<PointRow> = {},
): Study {
  const rows = points.map(([label, accuracy, ece, half = 0.01], i): PointRow => {
    const one = row({
      id: `${label}${i}`,
      method: label === 'baseline' ? label : 'ls',
      label,
      accuracy,
      ece,
      testEce: ece,
    });
    one.test.metrics['conf_ece']!.interval = [ece - half, ece + half];
    one.test.metrics['accuracy'] = {
      ...one.test.metrics['conf_ece']!,
      value: accuracy,
      interval: [accuracy - 0.02, accuracy + 0.02],
    };
    return { ...one, setting: 'OOD', ...changes };
  });
  return { plan, rows, summary: summariseRows('s', rows, rows) };
}

describe('a table beside the paper’s', () => {
  const study = studyOf([['baseline', 0.6, 0.3], ['calm', 0.58, 0.1], ['cft', 0.4, 0.09], ['mine', 0.6, 0.2]]); // prettier-ignore
  const values = besidePaper(paperTable('T1'), study);

  it('has the printed numbers as fractions, and ours with intervals', () => {
    const of = (source: string, method: string, metric: string, model?: string) =>
      values.find(
        (v) => v.source === source && v.method === method && v.metric === metric && (model ?? v.model) === v.model,
      )!;
    expect(of('paper', 'calm', 'accuracy', 'Llama-3.1')).toMatchObject({
      value: expect.closeTo(0.6445, 12) as number,
      lo: null,
      n: null,
    });
    expect(of('ours', 'base', 'conf_ece')).toMatchObject({ value: 0.3, lo: 0.29, hi: 0.31, setting: 'OOD' });
    expect(values.filter(({ source }) => source === 'paper')).toHaveLength(6 * 4 * 3);
  });

  it('is laid out by method, ours that the paper lacks at the end, inaccurate points marked', () => {
    const rows = sideBySide(values, 'conf_ece');
    expect(rows.map(({ method }) => method)).toEqual(['base', 'ts', 'reg', 'iterate', 'cft', 'calm', 'mine']);
    expect(Object.keys(rows[0]!)).toEqual(['method', 'Llama-3.1 (paper)', 'Vicuna-7B (paper)', 'OLMo-2-7B (paper)', 'Mistral-7B (paper)', 'm (ours)']); // prettier-ignore
    expect(rows[0]).toMatchObject({ 'Llama-3.1 (paper)': '0.1784', 'm (ours)': '0.300 [0.290, 0.310]' });
    expect(rows[1]!['m (ours)']).toBe(null);
    expect(rows[4]!['m (ours)']).toBe('0.090† [0.080, 0.100]'); // 0.4 is less than 80 % of 0.6
    expect(sideBySide(values, 'accuracy')[5]).toMatchObject({ 'Llama-3.1 (paper)': '64.45', 'm (ours)': '58.0 [56.0, 60.0]' }); // prettier-ignore
  });

  it('says what holds, and only where intervals lie apart', () => {
    const claims = Object.fromEntries(claimsOf(values).map(({ claim, paper, ours }) => [claim, [paper, ours]]));
    // The paper's numbers by hand: T1's conf-ECE of ts is above that of base for Llama and Vicuna.
    expect(claims['TS raises conf-ECE']).toEqual(['2 of 4 models', '—']);
    expect(claims['CALM lowers conf-ECE']).toEqual(['4 of 4 models', 'yes: calm 0.100, base 0.300']);
    expect(claims['CALM is below CFT in conf-ECE']![1]).toBe('unclear: calm 0.100, cft 0.090');
    expect(claims['Iterate loses 10 points of accuracy']![0]).toBe('3 of 4 models');
    expect(claims['CALM loses accuracy']![1]).toBe('unclear: calm 58.0 %, base 60.0 %');
    const worse = besidePaper(paperTable('T1'), studyOf([['baseline', 0.6, 0.3], ['calm', 0.6, 0.4]])); // prettier-ignore
    expect(claimsOf(worse)[1]!.ours).toBe('no: calm 0.400, base 0.300');
    const lost = besidePaper(paperTable('T1'), studyOf([['baseline', 0.6, 0.3], ['iterate', 0.45, 0.4]])); // prettier-ignore
    expect(claimsOf(lost)[5]!.ours).toBe('yes: iterate 45.0 %, base 60.0 %');
    const some = besidePaper(paperTable('T1'), studyOf([['baseline', 0.6, 0.3], ['iterate', 0.48, 0.4]])); // prettier-ignore
    expect(claimsOf(some)[5]!.ours).toBe('unclear: iterate 48.0 %, base 60.0 %');
  });

  it('is of another setting where asked', () => {
    const cloze = besidePaper(paperTable('T1'), studyOf([['baseline', 0.6, 0.3]], { setting: 'OOD-cloze' }), { setting: 'OOD-cloze' }); // prettier-ignore
    expect(cloze.filter(({ source }) => source === 'ours')).toHaveLength(2);
    expect(values.some(({ setting }) => setting === 'OOD-cloze')).toBe(false);
  });
});

it('a figure has the chosen points of its methods, in its order', () => {
  const study = studyOf([['calm', 0.6, 0.1], ['baseline', 0.6, 0.3], ['ls', 0.6, 0.2], ['calm-scalar', 0.6, 0.2]]); // prettier-ignore
  const bins = { confidence: [], classwise_total: [{ lo: 0, hi: 1, count: 1, mean_confidence: 0.5, accuracy: 0.5 }] };
  for (const one of study.rows) one.test.bins = bins;
  const panels = figurePanels('F1', study);
  expect(panels.map(({ title, kind }) => [title, kind])).toEqual([['Base', 'classwise_total'], ['CALM', 'classwise_total']]); // prettier-ignore
  expect(panels[0]).toMatchObject({ subtitle: 'm, OOD', bins: bins.classwise_total });
});

it('a study that others have done is taken as it stands, and is that of its plan', async () => {
  const cpu = await mcqaPlan('cpu');
  const { rows, summary } = await runStudy(cpu);
  const tried = planTable(cpu).map(({ setting, method, points }) => [setting, method, points]);
  expect(tried.map(([setting, method]) => [setting, method, rows.filter((one) => one.setting === setting && one.label === method).length])).toEqual(tried); // prettier-ignore
  expect(rows.every(({ test }) => test.n === 1000 && test.bins.confidence.length === 10)).toBe(true);
  expect(summary.chosen.every(({ status }) => status === 'selected')).toBe(true);
});

describe('a plan', () => {
  it('comes to so many points, and hours by Table 10 and epochs', () => {
    const lines = planTable(plan, { a100: true });
    expect(lines.map(({ method, points, 'A100 hours': hours }) => [method, points, hours])).toEqual([
      ['ts', 1, 1 / 60],
      ['calm', 4, 4 * 2 * 2], // two hours for five epochs
    ]);
    expect(planTable(plan)[1]).toEqual({ setting: 'OOD', method: 'calm', grid: 'lowerRate 0.1, 0.2', models: 1, seeds: 2, points: 4 }); // prettier-ignore
  });

  it('is repeated at its chosen point with other seeds, with both heads', () => {
    const [chosen] = studyOf([['calm', 0.6, 0.1]], { model: 'tiny', method: 'calm', varied: { lowerRate: 0.2 } }).summary.chosen; // prettier-ignore
    expect(() => robustnessPlan(plan, chosen!, [3, 4])).toThrow('no point of calm was chosen in OOD'); // without a base
    const study = studyOf([['baseline', 0.6, 0.3], ['calm', 0.6, 0.1]], { model: 'tiny', varied: { lowerRate: 0.2 } }); // prettier-ignore
    const again = robustnessPlan(plan, study.summary.chosen[1]!, [3, 4]);
    expect(again).toMatchObject({ name: 'robustness-test', model: ['tiny'] });
    expect(again.methods.slice(1)).toEqual(
      ['calm', 'calm-scalar'].map((method) => ({
        method,
        options: { epochs: 10 },
        grid: { lowerRate: [0.2] },
        seeds: [3, 4],
      })),
    );
  });
});
