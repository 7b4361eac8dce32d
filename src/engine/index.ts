export { startEngine, tf, type EngineInfo, type EngineKind, type Tensor } from './backend';
export { tensorsKept } from './leaks';
export { Random } from './random';
export * as tree from './tree';
