import * as path from 'node:path';
import * as Papa from 'papaparse';
import { writeFile } from '../base/files';
import type { ReportedResult, Row } from './types';

type Cell = Row[string];

interface Column {
  header: string;
  better?: 'higher' | 'lower';
  number?: (value: number) => string;
}

const integer = (value: number) => String(value);
const percent = (value: number) => (100 * value).toFixed(1);
const two = (value: number) => value.toFixed(2);
const four = (value: number) => value.toFixed(4);

const METRICS: Record<string, Column> = {
  accuracy: { header: 'Accuracy (%)', better: 'higher', number: percent },
  conf_ece: { header: 'conf-ECE', better: 'lower', number: four },
  cw_ece: { header: 'cw-ECE', better: 'lower', number: four },
  brier: { header: 'Brier', better: 'lower', number: four },
  nll: { header: 'NLL', better: 'lower', number: four },
  auroc: { header: 'AUROC', better: 'higher', number: four },
};

/** Shown where a result has them. */
const MORE_METRICS: Record<string, Column> = {
  sem_ece: { header: 'Sem-ECE', better: 'lower', number: four },
  sample_accuracy: { header: 'Samples right (%)', better: 'higher', number: percent },
  semantic_entropy: { header: 'Semantic entropy', number: four },
  exact_match: { header: 'Exact match (%)', better: 'higher', number: percent },
  acc_norm: { header: 'acc_norm (%)', better: 'higher', number: percent },
  word_perplexity: { header: 'Word perplexity', better: 'lower', number: two },
  byte_perplexity: { header: 'Byte perplexity', better: 'lower', number: four },
  bits_per_byte: { header: 'Bits per byte', better: 'lower', number: four },
};

const COLUMNS: Record<string, Column> = {
  model: { header: 'Model' },
  task: { header: 'Task' },
  scoring: { header: 'Scoring' },
  shots: { header: 'Shots', number: integer },
  calibration: { header: 'Calibration' },
  n: { header: 'n', number: integer },
  ...METRICS,
  ...MORE_METRICS,
  temperature: { header: 'T', number: four },
};

/**
 * One flat row a result: who and what (with the number of examples where any result has some), then accuracy (a
 * fraction), conf_ece, cw_ece, brier (0 to 2), nll (nats) and auroc, acc_norm and perplexities where any result has them,
 * then the temperature where any result has one, then `<metric>_lo` and `<metric>_hi`, the 95 % interval, of each metric
 * where any result has one. What a result lacks is null.
 */
export function resultsTable(results: readonly ReportedResult[]): Row[] {
  const has = (name: string) => results.some((result) => result.metrics[name]);
  const usual = Object.keys(METRICS);
  const more = Object.keys(MORE_METRICS).filter(has);
  // Perplexities have none of the usual metrics, and open questions not all of them.
  const names = [...(more.length > 0 && has('sem_ece') ? usual.filter(has) : more.length > 0 && !usual.some(has) ? [] : usual), ...more]; // prettier-ignore
  const intervals = names.filter((name) => results.some((result) => result.metrics[name]?.interval));
  const shots = results.some((result) => (result.shots ?? 0) > 0);
  const temperature = results.some((result) => typeof result.temperature === 'number');
  return results.map((result) => {
    const { model, task, scoring, calibration, n, metrics } = result;
    const row: Row = { model, task, scoring, ...(shots && { shots: result.shots ?? 0 }), calibration, n };
    for (const name of names) row[name] = metrics[name]?.value ?? null;
    if (temperature) row['temperature'] = result.temperature ?? null;
    for (const name of intervals) {
      row[`${name}_lo`] = metrics[name]?.interval?.[0] ?? null;
      row[`${name}_hi`] = metrics[name]?.interval?.[1] ?? null;
    }
    return row;
  });
}

/** A GitHub-flavoured Markdown table; an interval stands in its metric's cell, a missing value is an em dash. */
export function toMarkdown(table: readonly Row[]): string {
  const escape = (text: string) =>
    text.replace(/\s*\n\s*/g, ' ').replace(/[\\|<*`[\]]|(?<!\w)_|_(?!\w)/g, (character) => `\\${character}`);
  const columns = shownColumns(table);
  const header = columns.map(
    ({ header, better }) => escape(header) + (better ? (better === 'higher' ? ' ↑' : ' ↓') : ''),
  );
  const body = table.map((row) => columns.map((column) => cell(row, column, escape)));
  const rule = columns.map((column) => (column.numeric ? '---:' : '---'));
  return [header, rule, ...body].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

const LATEX: Record<string, string> = {
  '\\': '\\textbackslash{}',
  '~': '\\textasciitilde{}',
  '^': '\\textasciicircum{}',
  '[': '{[}', // after \\ or \midrule a bracket would be read as their option
};

/** A LaTeX `tabular` with booktabs rules, its text escaped (`\usepackage{booktabs}`). */
export function toLatex(table: readonly Row[]): string {
  const escape = (text: string) =>
    text.replace(/\s*\n\s*/g, ' ').replace(/[\\~^[&%_#${}]/g, (character) => LATEX[character] ?? `\\${character}`);
  const columns = shownColumns(table);
  const arrow = { higher: ' $\\uparrow$', lower: ' $\\downarrow$' };
  const header = columns.map(({ header, better }) => escape(header) + (better ? arrow[better] : ''));
  const body = table.map((row) =>
    columns.map((column) => cell(row, column, escape).replace('∞', '$\\infty$').replace('—', '---')),
  );
  const line = (cells: string[]) => `${cells.join(' & ')} \\\\`;
  return [
    `\\begin{tabular}{${columns.map((column) => (column.numeric ? 'r' : 'l')).join('')}}`,
    '\\toprule',
    line(header),
    '\\midrule',
    ...body.map(line),
    '\\bottomrule',
    '\\end{tabular}',
  ].join('\n');
}

/**
 * Writes `<id>.md` and `<id>.tex` into a folder, each whole or not at all, and says where.
 * @throws CalmError when a file cannot be written
 */
export function saveTable(table: readonly Row[], folder: string, id: string): { markdown: string; latex: string } {
  const files = { markdown: path.join(folder, `${id}.md`), latex: path.join(folder, `${id}.tex`) };
  writeFile(files.markdown, `${toMarkdown(table)}\n`);
  writeFile(files.latex, `${toLatex(table)}\n`);
  return files;
}

/**
 * Comma-separated values with a header line, numbers in full, null as nothing, quoted by RFC 4180 where a value needs
 * it, lines ended by "\n". (danfo.js joins its cells without quoting.)
 */
export function toCsv(table: readonly Row[]): string {
  const fields = columnNames(table);
  const data = table.map((row) => fields.map((field) => row[field] ?? null));
  return Papa.unparse({ fields, data }, { newline: '\n' });
}

/** The names of a table's columns, in the order in which its rows bring them up. */
export function columnNames(table: readonly Row[]): string[] {
  return [...new Set(table.flatMap(Object.keys))];
}

interface ShownColumn extends Column {
  name: string;
  numeric: boolean;
}

/** The columns a reader sees: bounds stand in their metric's cell, so they have none of their own. */
function shownColumns(table: readonly Row[]): ShownColumn[] {
  const names = columnNames(table);
  const bounds = new Set(names.flatMap((name) => [`${name}_lo`, `${name}_hi`]));
  return names
    .filter((name) => !bounds.has(name))
    .map((name) => ({
      ...(Object.hasOwn(COLUMNS, name) ? COLUMNS[name] : undefined),
      header: COLUMNS[name]?.header ?? name,
      name,
      numeric: table.every((row) => typeof row[name] !== 'string'),
    }));
}

function cell(row: Row, column: ShownColumn, escape: (text: string) => string): string {
  const show = (value: Cell | undefined): string => {
    if (value === null || value === undefined) return '—';
    if (typeof value !== 'number') return escape(String(value));
    if (Math.abs(value) === Infinity) return value > 0 ? '∞' : '-∞';
    return (column.number ?? (Number.isInteger(value) ? integer : four))(value);
  };
  const [lo, hi] = [row[`${column.name}_lo`], row[`${column.name}_hi`]];
  const interval = typeof lo === 'number' && typeof hi === 'number' ? ` [${show(lo)}, ${show(hi)}]` : '';
  return show(row[column.name]) + interval;
}
