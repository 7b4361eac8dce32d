import type { TopLevelSpec } from 'vega-lite';
import { UsageError } from '../base/errors';
import { expectedGap, type BinRow } from '../metrics';
import type { ReportedResult } from './types';
import { wrap } from './wrap';

/** A Vega-Lite v5 specification: plain JSON, its data inline. */
export interface VegaLiteSpec {
  /** Version 5's when absent. */
  $schema?: string;
  [key: string]: unknown;
}

/**
 * Which (probability, outcome) pairs the bins hold: each item's top choice and whether it is right, or every choice of
 * every item and whether it is the answer, pooled (the classwise "total" diagram);
 * or, of open questions, the frequency of the most frequent meaning and whether it is right.
 */
export type DiagramKind = 'confidence' | 'classwise_total' | 'semantic';

/** One reliability diagram: its identity, and its bins as data. */
export interface Panel {
  title: string;
  subtitle?: string;
  kind: DiagramKind;
  /** Items scored; the bins of a classwise panel count every choice of each. */
  n: number;
  bins: readonly BinRow[];
}

/** One drawn bin; `gap` is mean confidence minus accuracy, positive where overconfident; nulls in an empty bin. */
export interface ReliabilityRow extends BinRow {
  panel: number;
  title: string;
  gap: number | null;
}

export interface ReliabilityOptions {
  /** Panels per row; by default at most four, rows of even length. */
  columns?: number;
  /** A heading above all panels. */
  title?: string;
}

const ECE_NAME: Record<DiagramKind, string> = {
  confidence: 'conf-ECE',
  classwise_total: 'classwise (total) ECE',
  semantic: 'Sem-ECE',
};
const SIZE = 240; // px, the plotted square; with its axis a panel is about 300 px wide
const STRIP = 40; // px, the counts beneath it
const HEADROOM = 1.4; // of the strip's highest bar, for its label
const TITLE = { fontSize: 13, characters: 35 };
const SUBTITLE = { fontSize: 11, characters: 46 };

// Okabe-Ito hues, told apart under every colour-vision deficiency and, by lightness, in greyscale.
const COLOURS = {
  Accuracy: '#0072B2',
  'Gap: overconfident': 'rgba(213, 94, 0, 0.45)',
  'Gap: underconfident': '#9dcfee',
};
const INK = '#222222';
const QUIET = '#8a8a8a';

/** The panel of one result: `classwise_total` bins unless `asked` is top-choice confidence, or answers were sampled. */
export function panelOf(result: ReportedResult, asked: DiagramKind = 'classwise_total'): Panel {
  const kind = result.scoring === 'semantic' ? 'semantic' : asked;
  const { temperature, shots = 0 } = result;
  const examples = shots > 0 ? `, ${shots} ${shots > 1 ? 'examples' : 'example'}` : '';
  const fitted = temperature === undefined ? '' : `, T = ${temperature.toFixed(2)}`;
  return {
    title: `${result.model}, ${result.calibration}`,
    subtitle: `${result.task}, ${result.scoring} scoring${examples}${fitted}`,
    kind,
    n: result.n,
    bins: result.bins[kind === 'semantic' ? 'confidence' : kind],
  };
}

/** The numbers behind a diagram, one row a bin, panels in order. */
export function reliabilityData(panels: readonly (Panel | ReportedResult)[]): ReliabilityRow[] {
  return panels.map(asPanel).flatMap((panel, index) =>
    panel.bins.map(({ lo, hi, count, mean_confidence, accuracy }) => ({
      panel: index,
      title: panel.title,
      lo,
      hi,
      count,
      mean_confidence,
      accuracy,
      gap: gapOf({ lo, hi, count, mean_confidence, accuracy }),
    })),
  );
}

/**
 * Reliability diagrams as small multiples with the same axes: a bar per bin as high as its accuracy, the gap to its mean
 * confidence shaded (one colour where overconfident, another where underconfident), the dashed diagonal of perfect
 * calibration, and the bins' counts beneath. An empty bin draws as a gap. Each panel's title names it, its n and the
 * ECE of the bins drawn. A result stands for its `panelOf`.
 * @throws UsageError when there is no panel, CalmError when one has only empty bins
 */
export function reliabilityDiagram(
  input: readonly (Panel | ReportedResult)[],
  options: ReliabilityOptions = {},
): VegaLiteSpec {
  const panels = input.map(asPanel);
  if (panels.length === 0) throw new UsageError('a reliability diagram needs at least one panel');
  const rows = reliabilityData(panels);
  const columns = options.columns ?? Math.ceil(panels.length / Math.ceil(panels.length / 4));

  const spec = {
    $schema: 'https://vega.github.io/schema/vega-lite/v5.json',
    ...(options.title === undefined
      ? {}
      : { title: { text: options.title, anchor: 'middle', frame: 'bounds', fontSize: 15, offset: 16 } }),
    background: 'white',
    padding: 12,
    columns,
    spacing: { row: 32, column: 32 },
    concat: panels.map((panel, index) => ({
      title: headingOf(panel),
      data: { values: rows.filter((row) => row.panel === index) },
      spacing: 6,
      bounds: 'flush' as const,
      vconcat: [plot(), strip(Math.max(1, ...panel.bins.map((bin) => bin.count)))],
    })),
    config: {
      font: 'Arial, Arimo, Liberation Sans, Helvetica, sans-serif',
      view: { stroke: '#bbbbbb' },
      title: {
        anchor: 'start',
        frame: 'group',
        color: INK,
        fontSize: TITLE.fontSize,
        fontWeight: 'bold',
        subtitleColor: '#444444',
        subtitleFontSize: SUBTITLE.fontSize,
        subtitlePadding: 4,
        offset: 8,
      },
      axis: {
        labelColor: INK,
        titleColor: INK,
        labelFontSize: 11,
        labelFlush: false,
        titleFontSize: 12,
        titleFontWeight: 'normal',
        gridColor: '#e6e6e6',
        domainColor: QUIET,
        tickColor: QUIET,
        tickSize: 4,
      },
      legend: {
        orient: 'bottom',
        direction: 'horizontal',
        columns: columns === 1 ? 1 : 3,
        title: null,
        labelColor: INK,
        labelFontSize: 12,
        symbolType: 'square',
        symbolSize: 140,
        symbolStrokeWidth: 0,
      },
    },
  } satisfies TopLevelSpec;
  return spec;
}

const UNIT = { domain: [0, 1] };
const TICKS = [0, 0.2, 0.4, 0.6, 0.8, 1];
const NON_EMPTY = [{ filter: 'datum.count > 0' }];
const BAR = { type: 'rect' as const, xOffset: 0.5, x2Offset: -0.5 };
const BIN = {
  x: { field: 'lo', type: 'quantitative' as const, scale: UNIT },
  x2: { field: 'hi' },
};
const TOOLTIP = [
  { field: 'lo', title: 'from', format: '.2f' },
  { field: 'hi', title: 'to', format: '.2f' },
  { field: 'count', title: 'count' },
  { field: 'accuracy', title: 'accuracy', format: '.4f' },
  { field: 'mean_confidence', title: 'mean confidence', format: '.4f' },
  { field: 'gap', title: 'gap', format: '+.4f' },
].map((channel) => ({ ...channel, type: 'quantitative' as const }));

/** Bars of accuracy, the shaded gap, a line at each accuracy (so that an accuracy of 0 is seen), the diagonal. */
function plot() {
  const colour = {
    type: 'nominal' as const,
    scale: { domain: Object.keys(COLOURS), range: Object.values(COLOURS) },
  };
  const xAxis = { values: TICKS, labels: false, ticks: false, title: null };
  const yAxis = { values: TICKS, format: '.1f', title: 'Accuracy' };
  return {
    width: SIZE,
    height: SIZE,
    encoding: { x: { field: 'lo', type: 'quantitative' as const, scale: UNIT, axis: xAxis } },
    layer: [
      {
        transform: NON_EMPTY,
        mark: BAR,
        encoding: {
          ...BIN,
          y: { field: 'accuracy', type: 'quantitative' as const, scale: UNIT, axis: yAxis },
          y2: { datum: 0 },
          color: { datum: 'Accuracy', ...colour },
          tooltip: TOOLTIP,
        },
      },
      {
        transform: [
          ...NON_EMPTY,
          { calculate: "datum.gap > 0 ? 'Gap: overconfident' : 'Gap: underconfident'", as: 'direction' },
        ],
        mark: BAR,
        encoding: {
          ...BIN,
          y: { field: 'accuracy', type: 'quantitative' as const, scale: UNIT },
          y2: { field: 'mean_confidence' },
          color: { field: 'direction', ...colour },
          tooltip: TOOLTIP,
        },
      },
      {
        transform: NON_EMPTY,
        mark: { type: 'rule' as const, color: INK, strokeWidth: 1.5 },
        encoding: { ...BIN, y: { field: 'accuracy', type: 'quantitative' as const, scale: UNIT } },
      },
      {
        data: { values: [{ at: 0 }, { at: 1 }] },
        mark: { type: 'line' as const, color: INK, strokeDash: [5, 4], strokeWidth: 1.25 },
        encoding: {
          x: { field: 'at', type: 'quantitative' as const, scale: UNIT },
          y: { field: 'at', type: 'quantitative' as const, scale: UNIT },
        },
      },
    ],
  };
}

/** A slim histogram of the counts, each written above its bar. */
function strip(highest: number) {
  const y = {
    field: 'count',
    type: 'quantitative' as const,
    scale: { domain: [0, HEADROOM * highest] },
    axis: { labels: false, ticks: false, grid: false, domain: false, title: 'Count', titleFontSize: 11 },
  };
  const xAxis = { values: TICKS, format: '.1f', grid: false, title: 'Confidence' };
  return {
    width: SIZE,
    height: STRIP,
    view: { stroke: null },
    encoding: { x: { field: 'lo', type: 'quantitative' as const, scale: UNIT, axis: xAxis } },
    layer: [
      {
        transform: NON_EMPTY,
        mark: { ...BAR, color: '#9a9a9a' },
        encoding: { ...BIN, y, y2: { datum: 0 }, tooltip: TOOLTIP },
      },
      {
        transform: [
          { calculate: '(datum.lo + datum.hi) / 2', as: 'middle' },
          { calculate: "datum.count < 10000 ? datum.count : format(datum.count, '.2~s')", as: 'label' },
        ],
        mark: { type: 'text' as const, baseline: 'bottom' as const, dy: -1, fontSize: 9, color: INK },
        encoding: { x: { field: 'middle', type: 'quantitative' as const }, y, text: { field: 'label' } },
      },
    ],
  };
}

function asPanel(input: Panel | ReportedResult): Panel {
  return 'metrics' in input ? panelOf(input) : input;
}

function gapOf(bin: BinRow): number | null {
  return bin.mean_confidence === null || bin.accuracy === null ? null : bin.mean_confidence - bin.accuracy;
}

function headingOf(panel: Panel): { text: string[]; subtitle: string[] } {
  return {
    text: wrap(panel.title, TITLE.characters),
    subtitle: [
      ...(panel.subtitle === undefined ? [] : wrap(panel.subtitle, SUBTITLE.characters)),
      `n = ${panel.n.toLocaleString('en')}, ${ECE_NAME[panel.kind]} = ${expectedGap(panel.bins).toFixed(4)}`,
    ],
  };
}
