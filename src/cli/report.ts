import type { Command } from 'commander';
import * as path from 'node:path';
import { writeFile } from '../base/files';
import { readResults } from '../evaluate/results';
import { panelOf, reliabilityDiagram, resultsTable, saveFigure, toCsv, toLatex, toMarkdown } from '../report';
import { finish, oneOf } from './options';

interface Options {
  out: string;
  name: string;
  kind: 'classwise_total' | 'confidence';
  json?: boolean;
}

export function report(calm: Command): void {
  calm
    .command('report')
    .description('Draw reliability diagrams and write tables of evaluation runs')
    .argument('<run...>', 'folders written by "calm eval --out"')
    .requiredOption('--out <folder>', 'where the tables and figures go')
    .option('--name <id>', 'what their files are called', 'report')
    .option(
      '--kind <bins>',
      'classwise_total or confidence',
      oneOf(['classwise_total', 'confidence']),
      'classwise_total',
    )
    .option('--json', 'print one JSON object')
    .action((runs: string[], options: Options) => {
      const results = runs.flatMap(readResults);
      const table = resultsTable(results);
      const panels = results
        .filter(({ scoring }) => scoring !== 'rolling' && scoring !== 'generate')
        .map((r) => panelOf(r, options.kind));
      // Perplexities and greedy answers have no diagram; no results at all is an error of `reliabilityDiagram`.
      const files =
        panels.length > 0 || results.length === 0
          ? saveFigure(reliabilityDiagram(panels), options.out, options.name)
          : {};
      const tables = { markdown: toMarkdown(table), latex: toLatex(table), csv: toCsv(table).trimEnd() };
      const suffix = { markdown: 'md', latex: 'tex', csv: 'csv' };
      const written = Object.entries(tables).map(([kind, text]) => {
        const file = path.join(options.out, `${options.name}.${suffix[kind as keyof typeof suffix]}`);
        writeFile(file, `${text}\n`);
        return [kind, file] as const;
      });
      const all = { ...files, ...Object.fromEntries(written) };
      finish(
        options,
        { results: results.length, files: all },
        `${tables.markdown}\n\n${Object.values(all).join('\n')}`,
      );
    });
}
