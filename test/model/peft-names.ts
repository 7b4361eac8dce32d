import { leaves, type Tree } from '../../src/engine/tree';
import { HUGGING_FACE_PARTS } from '../../src/model/load';
import { deinterleave } from '../../src/model/rotary-layout';
import type { ModelConfig } from '../../src/model/config';
import type { Target } from '../../src/model/targets';
import type { Tensor2D } from '../../src/engine/backend';

/** The values of an adapter's tree (or its gradients) by PEFT's names, in PEFT's layout. */
export function byPeftName(tree: Tree, { headDim }: ModelConfig): Map<string, Float32Array> {
  return new Map(
    leaves(tree).map(([place, leaf]) => {
      const [block, target, matrix] = place.split('.') as [string, Target, 'a' | 'b'];
      const rotary = matrix === 'b' && (target === 'q' || target === 'k');
      const values = rotary ? deinterleave(leaf as Tensor2D, headDim) : leaf;
      const name = `${HUGGING_FACE_PARTS[target]}.lora_${matrix.toUpperCase()}`;
      const data = values.dataSync<'float32'>();
      if (values !== leaf) values.dispose();
      return [`base_model.model.model.layers.${block}.${name}.weight`, data];
    }),
  );
}

export function float64(bytes: Uint8Array): Float64Array {
  return new Float64Array(bytes.slice().buffer);
}
