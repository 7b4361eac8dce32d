import * as fs from 'node:fs';
import * as path from 'node:path';
import ts from 'typescript';
import { expect, test } from 'vitest';

const SRC = path.join(__dirname, '../src');

/** What each part may import (types aside), itself included; parts are folders of src, or files at its top. */
const MAY: Record<string, readonly string[]> = {
  base: [],
  engine: ['base'],
  data: ['base', 'engine'],
  model: ['base', 'engine'],
  metrics: ['base', 'engine'],
  pretrained: ['base', 'engine', 'data', 'model'],
  embed: ['base', 'engine', 'data', 'model'],
  train: ['base', 'engine', 'data', 'model'],
  calibrate: ['base', 'engine', 'data', 'model', 'metrics', 'train'],
  evaluate: ['base', 'engine', 'data', 'model', 'metrics', 'pretrained', 'calibrate'],
  experiments: ['base', 'engine', 'data', 'model', 'train', 'calibrate', 'evaluate', 'pretrained'],
  report: ['base', 'metrics', 'evaluate'],
  setup: ['base'],
  index: [
    'base',
    'engine',
    'data',
    'model',
    'metrics',
    'pretrained',
    'embed',
    'train',
    'calibrate',
    'evaluate',
    'experiments',
    'report',
  ],
  cli: ['base', 'model', 'metrics', 'calibrate', 'evaluate', 'experiments', 'report', 'setup', 'index'],
};

const partOf = (file: string) => path.relative(SRC, file).split(path.sep)[0]!.replace(/\.ts$/, '');

/** Files of src that a file imports for their values: static imports, re-exports and `import()`. */
function valueImports(file: string): string[] {
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) {
      const clause = ts.isImportDeclaration(node) ? node.importClause : node;
      const names = ts.isImportDeclaration(node) ? node.importClause?.namedBindings : node.exportClause;
      const named = names && (ts.isNamedImports(names) || ts.isNamedExports(names)) ? [...names.elements] : [];
      const onlyTypes = clause?.isTypeOnly === true || (named.length > 0 && named.every((name) => name.isTypeOnly));
      if (!onlyTypes && node.moduleSpecifier) found.push((node.moduleSpecifier as ts.StringLiteral).text);
    } else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      found.push((node.arguments[0] as ts.StringLiteral).text);
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(file, fs.readFileSync(file, 'utf8'), ts.ScriptTarget.ES2022, true));
  return found
    .filter((name) => name.startsWith('.') && !name.endsWith('.json'))
    .map((name) => {
      const at = path.join(path.dirname(file), name.replace(/\.js$/, ''));
      return fs.existsSync(`${at}.ts`) ? `${at}.ts` : path.join(at, 'index.ts');
    });
}

const files = fs
  .readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => path.join(SRC, file));

test('every part of src is in the list', () => {
  expect([...new Set(files.map(partOf))].sort()).toEqual(Object.keys(MAY).sort());
});

test('imports point one way', () => {
  const wrong = files.flatMap((file) =>
    valueImports(file)
      .filter((target) => partOf(target) !== partOf(file) && !MAY[partOf(file)]?.includes(partOf(target)))
      .map((target) => `${path.relative(SRC, file)} imports ${path.relative(SRC, target)}`),
  );
  expect(wrong).toEqual([]);
});

test('no file imports itself through others', () => {
  const state = new Map<string, 'open' | 'done'>();
  const cycles: string[] = [];
  const walk = (file: string, trail: string[]): void => {
    if (state.get(file) === 'done') return;
    if (state.get(file) === 'open') {
      cycles.push([...trail.slice(trail.indexOf(file)), file].map((f) => path.relative(SRC, f)).join(' > '));
      return;
    }
    state.set(file, 'open');
    for (const target of valueImports(file)) walk(target, [...trail, file]);
    state.set(file, 'done');
  };
  for (const file of files) walk(file, []);
  expect(cycles).toEqual([]);
});
