import { notebook, type Bundle, type Send } from '../base/notebook';
import type { VegaLiteSpec } from './reliability';
import type { Row } from './types';
import { renderPng } from './render';
import { toMarkdown } from './table';

/**
 * Shows a figure (a Vega-Lite specification or an SVG document), a table of rows, or Markdown text in a tslab notebook.
 * A figure goes out once, as Vega-Lite (which JupyterLab draws, with tooltips) and as PNG (for GitHub, nbconvert and
 * other readers). Outside a notebook a table is printed as text, and of a figure only a line.
 */
export function show(what: VegaLiteSpec | readonly Row[] | string): void {
  const send = notebook();
  if (typeof what === 'string') {
    const svg = /^\s*<(\?xml|svg)/.test(what);
    if (send) display(send, { [svg ? 'image/svg+xml' : 'text/markdown']: what });
    else console.log(svg ? OUTSIDE : what);
  } else if (isTable(what)) {
    const text = toMarkdown(what);
    if (send) display(send, { 'text/markdown': text, 'text/plain': text });
    else console.log(text);
  } else if (send) {
    const png = renderPng(what, { scale: SCALE });
    const size = new DataView(png.buffer, png.byteOffset); // IHDR: width at byte 16, height at 20
    const shown = { width: Math.round(size.getUint32(16) / SCALE), height: Math.round(size.getUint32(20) / SCALE) };
    display(
      send,
      { [VEGA_LITE]: what, 'image/png': Buffer.from(png).toString('base64'), 'text/plain': 'Vega-Lite figure' },
      { 'image/png': shown },
    );
  } else console.log(OUTSIDE);
}

const VEGA_LITE = 'application/vnd.vegalite.v5+json';
const SCALE = 2;
const OUTSIDE = '(a figure: it is drawn in a notebook; saveFigure writes it to files)';

function isTable(what: VegaLiteSpec | readonly Row[]): what is readonly Row[] {
  return Array.isArray(what);
}

function display(send: Send, data: Bundle, metadata: Bundle = {}): void {
  send({ data, metadata, transient: {} }, false);
}
