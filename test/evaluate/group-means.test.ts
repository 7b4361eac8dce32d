import { describe, expect, it } from 'vitest';
import { UsageError } from '../../src/base/errors';
import { groupMean } from '../../src/evaluate/group-means';

describe('groupMean', () => {
  // lm_eval 0.4.13: aggregate_subtask_metrics, pooled_sample_stderr, unweighted_mean_stderr.
  const members = [
    { n: 100, value: 0.25, stderr: 0.0435 },
    { n: 50, value: 0.5, stderr: 0.0714 },
    { n: 10, value: 0.9, stderr: 0.1 },
  ];
  it('is what lm-evaluation-harness gives, by size and alike', () => {
    const weighted = groupMean(members, { weighted: true });
    expect(weighted.value).toBeCloseTo(0.36875, 12);
    expect(weighted.stderr).toBeCloseTo(0.035760213564851956, 12);
    const alike = groupMean(members, { weighted: false });
    expect(alike.value).toBeCloseTo(0.55, 12);
    expect(alike.stderr).toBeCloseTo(0.0434488332537378, 12);
  });

  it('does not know an error that a member does not know', () => {
    expect(groupMean([...members, { n: 1, value: 1, stderr: null }], { weighted: false }).stderr).toBeNull();
  });

  it('refuses an empty group', () => {
    expect(() => groupMean([], { weighted: true })).toThrow(UsageError);
  });
});
