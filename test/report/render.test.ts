import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { Resvg } from '@resvg/resvg-js';
import { parse, View } from 'vega';
import { compile, type TopLevelSpec } from 'vega-lite';
import { afterAll, describe, expect, it } from 'vitest';
import { CalmError, UsageError } from '../../src/base/errors';
import { reliabilityDiagram, renderPng, renderSvg, saveFigure } from '../../src/report';
import { PANELS } from './sample';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'calm-figures-'));
afterAll(() => fs.rmSync(folder, { recursive: true }));

const spec = reliabilityDiagram(PANELS);
const svg = renderSvg(spec);
const size = (png: Uint8Array) => {
  const bytes = Buffer.from(png);
  return [bytes.readUInt32BE(16), bytes.readUInt32BE(20)];
};
const svgSize = ['width', 'height'].map((side) => Number(new RegExp(`<svg[^>]* ${side}="([\\d.]+)"`).exec(svg)?.[1]));

describe('renderSvg', () => {
  it('writes each title', () => {
    for (const text of [
      'Model A, uncalibrated',
      'arc_easy, letter scoring',
      'Model B, temperature',
      'conf-ECE = 0.2500',
    ])
      expect(svg).toContain(text);
  });

  it('draws as many bars as there are bins with pairs, in that colour', () => {
    const bars = [...svg.matchAll(/<path [^>]*fill="#0072B2"/g)].length - 1; // one is the legend's
    expect(bars).toBe(10);
    expect([...svg.matchAll(/<path [^>]*fill="#9a9a9a"/g)]).toHaveLength(10); // of the counts
  });

  it('gives what Vega itself gives, each time', async () => {
    const own = await new View(parse(compile(structuredClone(spec) as unknown as TopLevelSpec).spec), {
      renderer: 'none',
    }).toSVG();
    expect(svg).toBe(own);
    expect(renderSvg(spec)).toBe(svg);
    expect(renderSvg(reliabilityDiagram(PANELS))).toBe(svg);
  });

  it('leaves the specification as it was', () => {
    expect(spec).toStrictEqual(reliabilityDiagram(PANELS));
  });

  it('refuses what is not Vega-Lite', () => {
    expect(() => renderSvg({ $schema: 'x' })).toThrow(UsageError);
  });
});

describe('renderPng', () => {
  it.each([1, 2, 3])('is a PNG of %i pixels for each of the SVG', (scale) => {
    const png = renderPng(spec, { scale });
    expect([...png.subarray(0, 8)]).toEqual([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
    expect(size(png)).toEqual(svgSize.map((side) => Math.round(side * scale)));
  });

  it('is the same each time, and from the SVG', () => {
    expect(renderPng(svg)).toEqual(renderPng(spec));
  });

  it('draws text though no system font is loaded', () => {
    const text = (weight: string) =>
      `<svg xmlns="http://www.w3.org/2000/svg" width="80" height="20"><text y="15" font-family="Arial, Arimo" font-weight="${weight}">calm</text></svg>`;
    const blank = new Resvg('<svg xmlns="http://www.w3.org/2000/svg" width="80" height="20"/>').render().asPng();
    const [normal, bold] = [text('normal'), text('bold')].map((source) => renderPng(source, { scale: 1 }));
    expect(normal!.length).toBeGreaterThan(blank.length + 200);
    expect(bold).not.toEqual(normal);
  });

  it('refuses what is not SVG', () => {
    expect(() => renderPng('<p>no</p>')).toThrow(UsageError);
  });
});

describe('saveFigure', () => {
  it('writes the specification and both drawings', () => {
    const files = saveFigure(spec, path.join(folder, 'new'), 'two-panels');
    expect(fs.readdirSync(path.join(folder, 'new')).sort()).toEqual([
      'two-panels.png',
      'two-panels.svg',
      'two-panels.vl.json',
    ]);
    expect(JSON.parse(fs.readFileSync(files.spec, 'utf8'))).toEqual(spec);
    expect(fs.readFileSync(files.svg, 'utf8')).toBe(`${svg}\n`);
    expect(size(fs.readFileSync(files.png))).toEqual(svgSize.map((side) => 2 * side));
  });

  it('refuses a name that is a path, and a folder that is a file', () => {
    expect(() => saveFigure(spec, folder, '../up')).toThrow(UsageError);
    fs.writeFileSync(path.join(folder, 'file'), '');
    expect(() => saveFigure(spec, path.join(folder, 'file'), 'a')).toThrow(CalmError);
  });
});
