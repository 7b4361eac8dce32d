import type { Command } from 'commander';
import * as path from 'node:path';
import { writeFile } from '../base/files';
import { cacheFolder, PACKAGE_ROOT } from '../base/presets';
import { fitTemperature } from '../calibrate/temperature';
import type { Result } from '../evaluate';
import { panelOf, reliabilityDiagram, resultsTable, saveFigure, toMarkdown, type Panel } from '../report';
import { venvCommand } from '../setup/paths';

const MODEL = 'smollm2-135m-instruct';

/** What `npm start` ends with: a real model's confidence before and after temperature scaling. */
export function quickstart(calm: Command): void {
  calm
    .command('quickstart')
    .description('Evaluate the small model on the starter questions and draw its reliability diagrams')
    .action(async () => {
      const { evaluate, loadModel, loadTask, withTemperature, writeResults } = await import('../index.js');
      const model = await loadModel(MODEL);
      const test = await loadTask('starter', { split: 'test' });
      const validation = await loadTask('starter', { split: 'validation' });
      const results: Result[] = [];
      for (const scoring of ['letter', 'cloze'] as const) {
        const { rows } = await evaluate(model, validation, { scoring, resamples: 0 });
        const { applied_temperature } = fitTemperature(rows.map((r) => ({ logits: r.logprobs, label: r.label })));
        const before = await evaluate(model, test, { scoring });
        results.push(before, withTemperature(before, applied_temperature));
      }
      const table = toMarkdown(resultsTable(results));
      const run = path.join(cacheFolder(), 'runs', 'quickstart');
      const figures = path.join(PACKAGE_ROOT, 'figures');
      writeResults(run, results);
      writeFile(path.join(figures, 'quickstart.md'), `${table}\n`);
      const files = saveFigure(reliabilityDiagram(results.map((r) => rounded(panelOf(r)))), figures, 'quickstart');
      const here = (file: string) => path.relative(process.cwd(), file) || '.';
      process.stdout.write(
        [
          '',
          table,
          '',
          `Each temperature was fitted on the ${validation.docs.length} validation questions, of other topics than the ${test.docs.length} test questions.`,
          '',
          `Reliability diagrams  ${here(files.png)} (also .svg, and .vl.json: the specification with its data)`,
          `Table                 ${here(path.join(figures, 'quickstart.md'))}`,
          `Every answer          ${here(path.join(run, 'rows.jsonl'))}`,
          `Go on in a notebook   ${here(venvCommand('jupyter'))} lab ${here(path.join(PACKAGE_ROOT, 'notebooks', '00-quickstart.ipynb'))}`,
          '',
        ].join('\n'),
      );
    });
}

/** Four decimals are drawn, so that another machine's rounding does not change the committed figure. */
function rounded(panel: Panel): Panel {
  const round = (value: number | null) => (value === null ? null : Math.round(value * 1e4) / 1e4);
  const bins = panel.bins.map((bin) => ({
    ...bin,
    mean_confidence: round(bin.mean_confidence),
    accuracy: round(bin.accuracy),
  }));
  return { ...panel, bins };
}
