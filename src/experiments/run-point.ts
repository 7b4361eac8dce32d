import { performPoint } from './perform';
import { runPoint } from './point';
import type { Point } from './types';

// The process of one point: `node run-point.js FOLDER`, where FOLDER/point.json says what to do. Memory goes back to the
// machine when it ends, and a crash takes nothing else along.
if (require.main === module) {
  void performPoint(process.argv[2] ?? '.', (point, folder) => runPoint(point as Point, folder)).then((code) => {
    // The engine's threads may go on otherwise.
    process.exit(code);
  });
}
