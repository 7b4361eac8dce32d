import type { PosthocName } from '../../../src/calibrate/posthoc';

export interface LogitRow {
  logits: number[];
  label: number;
}

/** The same logits once for each label. */
export const repeat = (logits: number[], labels: number[]): LogitRow[] => labels.map((label) => ({ logits, label }));

/** The same probabilities once for each label. */
export const repeatProbs = (probs: number[], labels: number[]) => labels.map((label) => ({ probs, label }));

/** Every method with every choice that changes what it computes. */
export const VARIANTS: { method: PosthocName; options: object; ragged?: boolean }[] = [
  { method: 'vector', options: {} },
  { method: 'matrix', options: {} },
  { method: 'matrix', options: { lambda: 0.1, mu: 0.05 } },
  { method: 'platt', options: {} },
  { method: 'platt', options: { targets: 'smoothed' } },
  { method: 'platt', options: { construction: 'top-label' }, ragged: true },
  { method: 'isotonic', options: {} },
  { method: 'isotonic', options: { construction: 'top-label' }, ragged: true },
  { method: 'histogram', options: { bins: 4 } },
  { method: 'histogram', options: { bins: 4, binning: 'equal-mass' } },
  { method: 'histogram', options: { construction: 'top-label' }, ragged: true },
  { method: 'beta', options: {} },
  { method: 'beta', options: { construction: 'top-label' }, ragged: true },
  { method: 'ets', options: {}, ragged: true },
];
