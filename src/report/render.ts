import * as path from 'node:path';
import { Resvg } from '@resvg/resvg-js';
import * as vega from 'vega';
import { compile, type TopLevelSpec } from 'vega-lite';
import { UsageError } from '../base/errors';
import { toJson, writeFile } from '../base/files';
import type { VegaLiteSpec } from './reliability';

/** What is used of Vega's SVG renderer, which its typings leave out. */
interface SvgRenderer {
  initialize(el: null, width: number, height: number, origin: readonly [number, number]): this;
  background(colour: string): this;
  render(scene: unknown): this;
  svg(): string;
}
const { SVGStringRenderer, resetSVGDefIds, textMetrics } = vega as unknown as {
  SVGStringRenderer: new () => SvgRenderer;
  resetSVGDefIds: () => void;
  textMetrics: { width: (item: { fontSize?: number }, text: string) => number };
};

// Without a canvas Vega takes 0.8 em for a character; Arial's are 0.55 em on average, and panels stand closer.
textMetrics.width = (item, text) => Math.ceil(0.55 * (item.fontSize ?? 11) * String(text).length);

/**
 * Draws a specification, its data inline, as a standalone SVG document; the same specification gives the same text.
 * It is done at once (Vega's own `toSVG` is a promise), so that a notebook cell ends with its picture.
 * @throws UsageError when it is not valid Vega-Lite
 */
export function renderSvg(spec: VegaLiteSpec): string {
  let view: vega.View;
  try {
    // A copy, because Vega marks the rows of the data that it is given.
    const compiled = compile(structuredClone(spec) as unknown as TopLevelSpec).spec;
    view = new vega.View(vega.parse(compiled), { renderer: 'none', logLevel: vega.Warn }).run();
  } catch (error) {
    throw new UsageError(`not a valid Vega-Lite specification: ${(error as Error).message}`, { cause: error });
  }
  const { root } = view.scenegraph() as unknown as { root: { bounds: vega.Bounds } };
  const { left, right, top, bottom } = view.padding() as Required<Exclude<vega.Padding, number | vega.SignalRef>>;
  const { x1, y1, x2, y2 } = root.bounds;
  const [x, y] = [Math.max(0, Math.ceil(-x1)), Math.max(0, Math.ceil(-y1))];
  resetSVGDefIds();
  const svg = new SVGStringRenderer()
    .initialize(null, x + Math.ceil(x2) + left + right, y + Math.ceil(y2) + top + bottom, [x + left, y + top])
    .background(view.background())
    .render(root)
    .svg();
  view.finalize();
  return svg;
}

// The fonts come with the project: a machine without any would drop all text, and another one would draw it otherwise.
const FONTS = ['400Regular/Arimo_400Regular.ttf', '700Bold/Arimo_700Bold.ttf'];

/**
 * Draws a specification, or an SVG document, as a PNG image.
 * @param options.scale pixels of the image per pixel of the SVG (default 2)
 * @throws UsageError when the specification or the SVG is not valid
 */
export function renderPng(source: VegaLiteSpec | string, options: { scale?: number } = {}): Uint8Array {
  const svg = typeof source === 'string' ? source : renderSvg(source);
  const font = {
    loadSystemFonts: false,
    fontFiles: FONTS.map((file) => require.resolve(`@expo-google-fonts/arimo/${file}`)),
    defaultFontFamily: 'Arimo',
  };
  try {
    return new Resvg(svg, { font, fitTo: { mode: 'zoom', value: options.scale ?? 2 } }).render().asPng();
  } catch (error) {
    throw new UsageError(`not an SVG document: ${(error as Error).message}`, { cause: error });
  }
}

/**
 * Writes `<id>.vl.json`, `<id>.svg` and `<id>.png` into a folder, each whole or not at all, and says where.
 * @throws UsageError for a bad specification or id, CalmError when a file cannot be written
 */
export function saveFigure(spec: VegaLiteSpec, folder: string, id: string): { spec: string; svg: string; png: string } {
  if (!/^[\w.-]+$/.test(id))
    throw new UsageError(`"${id}" cannot name a figure`, { remedy: 'use letters, digits and -' });
  const svg = renderSvg(spec);
  const png = renderPng(svg);
  const at = (suffix: string) => path.join(folder, `${id}.${suffix}`);
  const files = { spec: at('vl.json'), svg: at('svg'), png: at('png') };
  writeFile(files.spec, `${toJson(spec, 1)}\n`);
  writeFile(files.svg, `${svg}\n`);
  writeFile(files.png, png);
  return files;
}
