import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { reliabilityDiagram, renderPng, resultsTable, show, toMarkdown } from '../../src/report';
import { PANELS, RESULTS } from './sample';

const spec = reliabilityDiagram(PANELS);
const svg = '<svg xmlns="http://www.w3.org/2000/svg" width="2" height="1"/>';
const log = vi.spyOn(console, 'log');
beforeEach(() => log.mockReset());

describe('show outside a notebook', () => {
  it('prints a table and text, and of a figure one line', () => {
    show(resultsTable(RESULTS));
    show('# text');
    show(spec);
    show(svg);
    const [table, text, ...figures] = log.mock.calls.flat() as string[];
    expect(table).toBe(toMarkdown(resultsTable(RESULTS)));
    expect(text).toBe('# text');
    expect(figures).toHaveLength(2);
    for (const line of figures) expect(line).toMatch(/saveFigure/);
  });
});

describe('show in a tslab kernel', () => {
  const file = require.resolve('tslab/dist/jupyter.js');
  const sent = vi.fn();
  beforeEach(() => {
    sent.mockReset();
    // Only a kernel has this module loaded; it is not loaded here, because it binds sockets' native code.
    require.cache[file] = { exports: { lastWriteDisplayData: sent } } as unknown as NodeJS.Module;
  });
  afterEach(() => {
    delete require.cache[file];
  });

  it('sends a figure once, as Vega-Lite and PNG, at its own size', () => {
    show(spec);
    expect(sent).toHaveBeenCalledTimes(1);
    const [message, update] = sent.mock.calls[0] as [{ data: Record<string, unknown>; metadata: object }, boolean];
    const png = Buffer.from(renderPng(spec, { scale: 1 }));
    expect(update).toBe(false);
    expect(message.data).toEqual({
      'application/vnd.vegalite.v5+json': spec,
      'image/png': Buffer.from(renderPng(spec)).toString('base64'),
      'text/plain': expect.any(String) as string,
    });
    expect(message.metadata).toEqual({ 'image/png': { width: png.readUInt32BE(16), height: png.readUInt32BE(20) } });
    expect(log).not.toHaveBeenCalled();
  });

  it.each([
    ['a table', resultsTable(RESULTS), 'text/markdown'],
    ['text', 'some *text*', 'text/markdown'],
    ['an SVG', svg, 'image/svg+xml'],
  ])('sends %s once', (_name, what, type) => {
    show(what);
    expect(sent).toHaveBeenCalledTimes(1);
    expect(sent.mock.calls[0]?.[0]).toMatchObject({
      data: { [type]: typeof what === 'string' ? what : toMarkdown(what) },
    });
  });
});
