import { describe, expect, it } from 'vitest';
import { independent, minimise, type Objective, solve } from '../../../src/calibrate/posthoc/newton';

/** (x - 1)^2 + (y + 2)^2 + x y, whose minimum is at (8/3, -10/3). */
const bowl: Objective = {
  size: 2,
  at([x, y], gradient, hessian) {
    gradient?.set([2 * (x! - 1) + y!, 2 * (y! + 2) + x!]);
    hessian?.set([2, 0, 1, 2]);
    return (x! - 1) ** 2 + (y! + 2) ** 2 + x! * y!;
  },
  change: (d) => ({ largest: Math.max(...d.map(Math.abs)), forever: false }),
};

/** exp(-x), which has no minimum. */
const slide: Objective = {
  size: 1,
  at([x], gradient, hessian) {
    gradient?.set([-Math.exp(-x!)]);
    hessian?.set([Math.exp(-x!)]);
    return Math.exp(-x!);
  },
  change: ([d]) => ({ largest: Math.abs(d!), forever: false }),
};

describe('minimise', () => {
  it('finds the minimum of a quadratic in one step', () => {
    const { x, status } = minimise(bowl, new Float64Array([50, 50]), { maxIterations: 2 });
    expect(status).toBe('converged');
    expect(x[0]).toBeCloseTo(8 / 3, 12);
    expect(x[1]).toBeCloseTo(-10 / 3, 12);
  });

  it('keeps to least values', () => {
    const at = (lower: number[], start: number[]) => minimise(bowl, Float64Array.from(start), { lower });
    expect(Array.from(at([0, 0], [5, 5]).x)).toEqual([1, 0]);
    expect(at([-Infinity, -1], [5, 5]).x[0]).toBeCloseTo(1.5, 12);
    expect(at([-Infinity, -1], [5, 5]).x[1]).toBe(-1);
    expect(at([0, -9], [0, -9]).x[0]).toBeCloseTo(8 / 3, 12); // leaves where it started, on both
    expect(Array.from(at([3, 0], [3, 0]).x)).toEqual([3, 0]);
  });

  it('leaves variables alone that are not among those asked for', () => {
    const { x } = minimise(bowl, new Float64Array([2, 0]), { among: [1] });
    expect(Array.from(x)).toEqual([2, -3]);
  });

  it('says where there is no minimum, or none was reached', () => {
    const forever = { ...slide, change: ([d]: Float64Array) => ({ largest: Math.abs(d!), forever: d! > 0 }) };
    expect(minimise(forever, new Float64Array(1)).status).toBe('unbounded');
    expect(minimise(slide, new Float64Array(1), { maxIterations: 5 }).status).toBe('not-converged');
    expect(minimise(slide, new Float64Array(1), { maxIterations: 5 }).x[0]).toBeCloseTo(5, 12);
  });

  it('goes back where a whole step would overshoot', () => {
    // log cosh: from 2 a whole step goes to -11.6, and further at each one after.
    const cosh: Objective = {
      size: 1,
      at([x], gradient, hessian) {
        gradient?.set([Math.tanh(x!)]);
        hessian?.set([1 / Math.cosh(x!) ** 2]);
        return Math.log(Math.cosh(x!));
      },
      change: ([d]) => ({ largest: Math.abs(d!), forever: false }),
    };
    const { x, status } = minimise(cosh, new Float64Array([2]));
    expect(status).toBe('converged');
    expect(x[0]).toBeCloseTo(0, 12);
  });
});

describe('solve and independent', () => {
  it('solves, also where a variable has no effect', () => {
    const x = solve(new Float64Array([4, 0, 0, 2, 3, 0, 0, 0, 0]), new Float64Array([10, 8, 0]), [0, 1, 2]);
    [1.75, 1.5, 0].forEach((value, i) => expect(x[i]).toBeCloseTo(value, 12));
    expect(Array.from(solve(new Float64Array([4, 0, 2, 3]), new Float64Array([8, 5]), [0]))[0]).toBeCloseTo(2, 12);
  });

  it('gives what a singular system asks for', () => {
    const x = solve(new Float64Array([1, 1, 1, 1]), new Float64Array([2, 2]), [0, 1]);
    expect(x[0]! + x[1]!).toBeCloseTo(2, 10);
    expect(x.every(Number.isFinite)).toBe(true);
  });

  it('counts what is independent', () => {
    expect(independent(new Float64Array([1, 0, 0, 1]), 2)).toEqual([0, 1]);
    expect(independent(new Float64Array([1, 0, 1, 1]), 2)).toHaveLength(1);
    expect(independent(new Float64Array([1e-9, 0, 0, 1e9]), 2)).toEqual([0, 1]);
    expect(independent(new Float64Array(4), 2)).toEqual([]);
  });
});
