import * as fc from 'fast-check';
import * as Papa from 'papaparse';
import { describe, expect, it } from 'vitest';
import { resultsTable, toCsv, toLatex, toMarkdown } from '../../src/report';
import { RESULTS } from './sample';

describe('resultsTable', () => {
  it('is a flat row a result', () => {
    expect(resultsTable(RESULTS)[0]).toEqual({
      model: 'smol_lm',
      task: 'arc_easy',
      scoring: 'letter',
      calibration: 'uncalibrated',
      n: 300,
      accuracy: 0.5233333,
      conf_ece: 0.31234567,
      cw_ece: 0.2,
      brier: 0.75,
      nll: Infinity,
      auroc: null,
      temperature: null,
      accuracy_lo: 0.4666,
      accuracy_hi: 0.58,
    });
  });

  it('has a temperature only where one was fitted, and null for a metric that is absent', () => {
    const [row] = resultsTable([{ ...RESULTS[0]!, metrics: {} }]);
    expect(Object.keys(row!)).not.toContain('temperature');
    expect(row).toMatchObject({ accuracy: null, auroc: null });
  });
});

describe('toMarkdown', () => {
  it('is exactly this', () => {
    expect(toMarkdown(resultsTable(RESULTS))).toBe(
      [
        '| Model | Task | Scoring | Calibration | n | Accuracy (%) ↑ | conf-ECE ↓ | cw-ECE ↓ | Brier ↓ | NLL ↓ | AUROC ↑ | T |',
        '| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |',
        '| smol_lm | arc_easy | letter | uncalibrated | 300 | 52.3 [46.7, 58.0] | 0.3123 | 0.2000 | 0.7500 | ∞ | — | — |',
        '| smol_lm | arc_easy | letter | temperature | 300 | 52.3 [46.7, 58.0] | 0.0500 | 0.1000 | 0.6000 | 1.2000 | 0.6100 | 2.5000 |',
      ].join('\n'),
    );
  });

  it('escapes what Markdown would read, and shows columns that it does not know', () => {
    expect(toMarkdown([{ 'a|b': 'x|<y>\n*z* `c` [d] _e_ f_g', flag: true, value: -Infinity, share: 0.25 }])).toBe(
      [
        '| a\\|b | flag | value | share |',
        '| --- | ---: | ---: | ---: |',
        '| x\\|\\<y> \\*z\\* \\`c\\` \\[d\\] \\_e\\_ f_g | true | -∞ | 0.2500 |',
      ].join('\n'),
    );
  });
});

describe('toLatex', () => {
  it('is exactly this', () => {
    expect(toLatex(resultsTable(RESULTS))).toBe(
      String.raw`\begin{tabular}{llllrrrrrrrr}
\toprule
Model & Task & Scoring & Calibration & n & Accuracy (\%) $\uparrow$ & conf-ECE $\downarrow$ & cw-ECE $\downarrow$ & Brier $\downarrow$ & NLL $\downarrow$ & AUROC $\uparrow$ & T \\
\midrule
smol\_lm & arc\_easy & letter & uncalibrated & 300 & 52.3 [46.7, 58.0] & 0.3123 & 0.2000 & 0.7500 & $\infty$ & --- & --- \\
smol\_lm & arc\_easy & letter & temperature & 300 & 52.3 [46.7, 58.0] & 0.0500 & 0.1000 & 0.6000 & 1.2000 & 0.6100 & 2.5000 \\
\bottomrule
\end{tabular}`,
    );
  });

  it('escapes every special character, also a bracket after a line end', () => {
    expect(toLatex([{ a: '[&%_#${}~^\\' }]).split('\n')[4]).toBe(
      String.raw`{[}\&\%\_\#\$\{\}\textasciitilde{}\textasciicircum{}\textbackslash{} \\`,
    );
  });
});

describe('toCsv', () => {
  const read = (csv: string) => Papa.parse<string[]>(csv, { delimiter: ',', newline: '\n' }).data;

  it('quotes a, "b" and a line break so that they come back (case D-1)', () => {
    const nasty = 'a,"b"\nc';
    const csv = toCsv([{ [nasty]: nasty, x: 1 }]);
    expect(csv).toBe('"a,""b""\nc",x\n"a,""b""\nc",1');
    expect(read(csv)).toEqual([
      [nasty, 'x'],
      [nasty, '1'],
    ]);
  });

  it('gives back any text', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.string(), fc.string()), { minLength: 1 }), (rows) => {
        expect(read(toCsv(rows.map(([a, b]) => ({ a, b }))))).toEqual([['a', 'b'], ...rows]);
      }),
    );
  });

  it('writes numbers in full, infinities by name, and nothing for null or a column that a row lacks', () => {
    expect(
      toCsv([
        { a: 0.1 + 0.2, b: -Infinity },
        { b: null, c: true },
      ]),
    ).toBe('a,b,c\n0.30000000000000004,-Infinity,\n,,true');
  });
});
