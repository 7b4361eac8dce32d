export type { ReportedResult, Row } from './types';
export { panelOf, reliabilityData, reliabilityDiagram } from './reliability';
export type { DiagramKind, Panel, ReliabilityOptions, ReliabilityRow, VegaLiteSpec } from './reliability';
export { resultsTable, saveTable, toCsv, toLatex, toMarkdown } from './table';
export { frame } from './frame';
export { renderPng, renderSvg, saveFigure } from './render';
export { show } from './show';
