import type { Panel } from '../report';
import type { PaperTable } from './paper';
import type { SelectionStatus } from './select';
import type { Study } from './study';
import type { Chosen } from './summary';
import type { PointRow } from './types';

const METRICS = { accuracy: 'acc_pct', conf_ece: 'conf_ece', cw_ece: 'cw_ece' } as const;
export type ComparedMetric = keyof typeof METRICS;

/** A number of a table, as it is printed or as it was measured. */
export interface ComparedValue {
  [column: string]: string | number | null;
  setting: string;
  /** As the paper calls it: base, ts, ls, reg, iterate, cft, calm. */
  method: string;
  model: string;
  source: 'paper' | 'ours';
  metric: ComparedMetric;
  /** Accuracy is a fraction. */
  value: number;
  /** 95 % bootstrap interval over questions, of a single seed; null in print. */
  lo: number | null;
  hi: number | null;
  /** Standard deviation (n - 1) over seeds, where there are several. */
  sd: number | null;
  /** Questions; null in print. */
  n: number | null;
  /** How the point was selected; null in print. */
  selection: SelectionStatus | null;
}

/** The label of a plan's method as the paper writes it. */
const paperName = (label: string) => (label === 'baseline' ? 'base' : label);

/**
 * The numbers of Table 1 or 2 (or of another table with these columns), and ours for the same setting: of each method the
 * point that the selection rule chose on validation, measured on test. Methods that the table does not have follow.
 * @param options.setting the study's, where it is not called as the table's (`ID-cloze` beside Table 2)
 */
export function besidePaper(table: PaperTable, study: Study, { setting }: { setting?: string } = {}): ComparedValue[] {
  const metrics = Object.keys(METRICS) as ComparedMetric[];
  const printed = table.rows.flatMap((row) =>
    metrics.flatMap((metric): ComparedValue[] => {
      const value = row[METRICS[metric]];
      if (typeof value !== 'number') return [];
      const [where, method, model] = [String(row['setting']), String(row['method']), String(row['model'])];
      const scaled = metric === 'accuracy' ? value / 100 : value;
      return [{ setting: where, method, model, source: 'paper', metric, value: scaled, lo: null, hi: null, sd: null, n: null, selection: null }]; // prettier-ignore
    }),
  );
  const ours = setting ?? printed[0]?.setting;
  const order = [...new Set(printed.map(({ method }) => method))];
  const rank = (method: string) => (order.includes(method) ? order.indexOf(method) : order.length);
  const measured = chosenRows(study, ours).flatMap(({ chosen, rows }) =>
    metrics.flatMap((metric): ComparedValue[] => {
      const { mean, sd } = chosen.chosen!.test[metric] ?? { mean: null, sd: null };
      if (mean === null) return [];
      const [lo, hi] = (rows.length === 1 && rows[0]!.test.metrics[metric]?.interval) || [null, null];
      const { label, model, status } = chosen;
      return [{ setting: chosen.setting, method: paperName(label), model, source: 'ours', metric, value: mean, lo, hi, sd, n: rows[0]!.test.n, selection: status }]; // prettier-ignore
    }),
  );
  return [...printed, ...measured.sort((a, b) => rank(a.method) - rank(b.method))];
}

/** The chosen points of a setting with their rows, one for each seed. */
function chosenRows({ rows, summary }: Study, setting: string | undefined): { chosen: Chosen; rows: PointRow[] }[] {
  return summary.chosen
    .filter((one) => one.setting === setting && one.chosen !== null)
    .map((chosen) => ({ chosen, rows: rows.filter(({ id }) => chosen.chosen!.ids.includes(id)) }));
}

/**
 * One metric of `besidePaper` as a table to look at: a row for each method, the paper's models first, then ours with the
 * interval (or the standard deviation over seeds). Accuracies are percent; a dagger marks a point whose accuracy is not
 * above 80 % of the base model's.
 */
export function sideBySide(values: readonly ComparedValue[], metric: ComparedMetric): Record<string, string | null>[] {
  const of = values.filter((one) => one.metric === metric);
  const number = (value: number) => (metric === 'accuracy' ? (100 * value).toFixed(1) : value.toFixed(3));
  // As it stands there, to the digit.
  const print = (value: number) =>
    metric === 'accuracy' ? String(Number((100 * value).toFixed(2))) : value.toFixed(4);
  const shown = ({ source, value, lo, hi, sd, selection }: ComparedValue) =>
    (source === 'paper' ? print(value) : number(value)) +
    (selection === 'none-accurate-enough' ? '†' : '') +
    (lo !== null && hi !== null ? ` [${number(lo)}, ${number(hi)}]` : sd === null ? '' : ` ± ${number(sd)}`);
  const columns = [...new Set(of.map(({ model, source }) => `${model} (${source})`))];
  return [...new Set(of.map(({ method }) => method))].map((method) => ({
    method,
    ...Object.fromEntries(
      columns.map((column) => {
        const found = of.find((one) => one.method === method && `${one.model} (${one.source})` === column);
        return [column, found ? shown(found) : null];
      }),
    ),
  }));
}

/** Whether a claim about a table holds, on how many of the models. */
export interface ClaimRow {
  [column: string]: string;
  claim: string;
  paper: string;
  ours: string;
}

/** What the paper's text says of Tables 1 and 2, or can be read off them: a number that is negative where it holds. */
const CLAIMS: {
  setting: 'OOD' | 'ID';
  claim: string;
  metric: ComparedMetric;
  of: string;
  than: string;
  by?: number;
}[] = [
  { setting: 'OOD', claim: 'TS raises conf-ECE', metric: 'conf_ece', of: 'base', than: 'ts' },
  { setting: 'OOD', claim: 'CALM lowers conf-ECE', metric: 'conf_ece', of: 'calm', than: 'base' },
  { setting: 'OOD', claim: 'CALM is below CFT in conf-ECE', metric: 'conf_ece', of: 'calm', than: 'cft' },
  { setting: 'OOD', claim: 'CALM is below Reg in conf-ECE', metric: 'conf_ece', of: 'calm', than: 'reg' },
  { setting: 'OOD', claim: 'CALM is below TS in conf-ECE', metric: 'conf_ece', of: 'calm', than: 'ts' },
  { setting: 'OOD', claim: 'Iterate loses 10 points of accuracy', metric: 'accuracy', of: 'iterate', than: 'base', by: 0.1 }, // prettier-ignore
  { setting: 'OOD', claim: 'CALM loses accuracy', metric: 'accuracy', of: 'calm', than: 'base' },
  { setting: 'ID', claim: 'TS lowers conf-ECE', metric: 'conf_ece', of: 'ts', than: 'base' },
  { setting: 'ID', claim: 'CALM lowers conf-ECE', metric: 'conf_ece', of: 'calm', than: 'base' },
  { setting: 'ID', claim: 'TS is below CALM in conf-ECE', metric: 'conf_ece', of: 'ts', than: 'calm' },
  { setting: 'ID', claim: 'CALM is below CFT in conf-ECE', metric: 'conf_ece', of: 'calm', than: 'cft' },
  { setting: 'ID', claim: 'CALM is below Reg in conf-ECE', metric: 'conf_ece', of: 'calm', than: 'reg' },
  { setting: 'ID', claim: 'CALM is below LS in conf-ECE', metric: 'conf_ece', of: 'calm', than: 'ls' },
  { setting: 'ID', claim: 'CALM raises accuracy', metric: 'accuracy', of: 'base', than: 'calm' },
];

/**
 * What Table 1 or 2 shows, and whether ours shows it too. In print a claim holds on so many of the models. Ours is `yes` or
 * `no` where the 95 % intervals of the two numbers do not overlap, and `unclear` where they do.
 */
export function claimsOf(values: readonly ComparedValue[]): ClaimRow[] {
  const setting = values.find(({ source }) => source === 'paper')?.setting;
  return CLAIMS.filter((one) => one.setting === setting).map(({ claim, metric, of, than, by = 0 }) => {
    const judged = (source: 'paper' | 'ours') => {
      const find = (method: string, model: string) =>
        values.find((v) => v.source === source && v.metric === metric && v.method === method && v.model === model);
      return [...new Set(values.filter((v) => v.source === source).map(({ model }) => model))].flatMap((model) => {
        const [a, b] = [find(of, model), find(than, model)];
        if (!a || !b) return [];
        const holds = a.value < b.value - by;
        const surely = (a.hi ?? a.value) < (b.lo ?? b.value) - by;
        const surelyNot = (a.lo ?? a.value) > (b.hi ?? b.value) - by;
        const digits = (x: number) => (metric === 'accuracy' ? `${(100 * x).toFixed(1)} %` : x.toFixed(3));
        return [{ holds, verdict: surely ? 'yes' : surelyNot ? 'no' : 'unclear', text: `${of} ${digits(a.value)}, ${than} ${digits(b.value)}` }]; // prettier-ignore
      });
    };
    const [paper, ours] = [judged('paper'), judged('ours')];
    const count = `${paper.filter(({ holds }) => holds).length} of ${paper.length} models`;
    return {
      claim,
      paper: paper.length > 0 ? count : '—',
      ours: ours.map(({ verdict, text }) => `${verdict}: ${text}`).join('; ') || '—',
    };
  });
}

/** The panels of Figures 1 to 4: class-wise reliability, all four options of a question pooled. */
export const FIGURES = {
  F1: { setting: 'OOD', methods: ['base', 'ts', 'cft', 'calm'] },
  F2: { setting: 'OOD', methods: ['base', 'ts', 'reg', 'iterate', 'cft', 'calm'] },
  F3: { setting: 'ID', methods: ['base', 'ts', 'ls', 'reg'] },
  F4: { setting: 'ID', methods: ['iterate', 'cft', 'calm'] },
} as const;

const TITLES: Record<string, string> = { base: 'Base', ts: 'TS', ls: 'LS', reg: 'Reg', iterate: 'Iterate', cft: 'CFT', calm: 'CALM' }; // prettier-ignore

/**
 * The panels of a figure of the paper from our chosen points, method by method, each model beside the others.
 * @param setting the study's, where it is not the figure's (`OOD-cloze`)
 */
export function figurePanels(figure: keyof typeof FIGURES, study: Study, setting?: string): Panel[] {
  const { setting: own, methods } = FIGURES[figure];
  const found = chosenRows(study, setting ?? own);
  return methods.flatMap((method) =>
    found
      .filter(({ chosen }) => paperName(chosen.label) === method)
      .map(({ chosen, rows: [row] }): Panel => ({
        title: TITLES[method]!,
        subtitle: `${chosen.model}, ${chosen.setting}`,
        kind: 'classwise_total',
        n: row!.test.n,
        bins: row!.test.bins.classwise_total,
      })),
  );
}
