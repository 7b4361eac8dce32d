import { expect, it } from 'vitest';
import { ownCurvature, sharedCurvature } from '../../../src/calibrate/posthoc/curvature';
import { Random } from '../../../src/engine/random';
import { softmax } from '../../../src/metrics';

it('is the same however it is summed, and as it is defined', () => {
  const [classes, width] = [4, 3];
  const size = classes * width;
  for (const rows of [1, 4, 7, 18]) {
    const random = Random.seed(rows);
    const [own, shared] = [ownCurvature(classes, width), sharedCurvature(classes, width)];
    const right = new Float64Array(size * size);
    for (const curvature of [own, shared]) {
      curvature.add(new Float64Array([0.1, 0.2, 0.3, 0.4]), new Float64Array(size).fill(7));
      curvature.clear(); // takes all of it back
    }
    for (let i = 0; i < rows; i++) {
      const p = softmax(Array.from({ length: classes }, () => random.normal()));
      const u = [random.normal(), random.normal(), 1];
      const input = Float64Array.from({ length: size }, (_, at) => u[at % width]!);
      for (const curvature of [own, shared]) curvature.add(Float64Array.from(p), input);
      for (let at = 0; at < size * size; at++) {
        const [row, column] = [Math.floor(at / size), at % size];
        const [k, l] = [Math.floor(row / width), Math.floor(column / width)];
        right[at]! += (p[k]! * ((k === l ? 1 : 0) - p[l]!) * input[row]! * input[column]!) / rows;
      }
    }
    for (const curvature of [own, shared]) {
      const found = new Float64Array(size * size);
      curvature.write(found, rows);
      for (let row = 0; row < size; row++) {
        for (let column = 0; column <= row; column++) {
          expect(found[row * size + column]).toBeCloseTo(right[row * size + column]!, 13);
        }
      }
    }
  }
});
