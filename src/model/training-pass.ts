import { tf, type Tensor2D } from '../engine/backend';
import { leaves } from '../engine/tree';
import { matmul, rmsNorm, rmsNormBackward, silu, swiGluBackward } from '../engine/ops';
import { attentionBackward, layBackwardGrid, layGrid, type BackwardGrid, type Grid } from './attention';
import type { ModelConfig } from './config';
import {
  loraScaling,
  lowRankBackward,
  lowRankOutput,
  maskOf,
  mergeBlock,
  PRODUCTS,
  targetShape,
  type Adapter,
  type AdapterBlock,
  type Dropout,
} from './lora';
import type { Packed } from './packed';
import type { Transformer } from './transformer';
import { blockOf, embed, MOST_SCORES, runBlock, type Block, type Product } from './transformer';

/** A forward pass whose adapter can be differentiated. */
export interface TrainingPass {
  /** Normed hidden states at the chosen tokens, [p, hidden]. */
  hidden: Tensor2D;
  /**
   * Gradients by the adapter's matrices, from that by `hidden` [p, hidden]. Once only: what the pass kept is freed on
   * the way. The caller disposes of them.
   */
  backward(gradient: Tensor2D): AdapterBlock[];
  /** Frees the pass. */
  dispose(): void;
}

/** What one block's backward pass starts from: its input, and what is dearest to compute again. */
type Trace = {
  /** The merged weights; absent where they are made again, because the base is held quantised. */
  block?: Block;
  x: Tensor2D; // [n, hidden]
  rotated: Tensor2D; // [n * (heads + 2 kvHeads), headDim]
  attended: Tensor2D; // [n, heads * headDim]; from here on [p, …] in the last block
  middle: Tensor2D; // [n, hidden]
  gate: Tensor2D; // [n, intermediate]
  up: Tensor2D; // [n, intermediate]
};

/**
 * Runs a packed batch through the model with an adapter, to be differentiated by hand rather than on tfjs's tape: each
 * block keeps six tensors and computes the rest again, the last block's feed-forward runs at the chosen tokens only, and
 * no gradient goes below the lowest adapted block. Without dropout, W + scaling * b a is formed once per pass.
 * @param at the tokens whose hidden states are wanted
 * @param options.forwardOnly keep nothing: `backward` cannot be called
 * @throws CalmError for a token outside the vocabulary
 */
export function trainingPass(
  { config, parameters }: Transformer,
  adapter: Adapter,
  packed: Packed,
  at: Int32Array,
  { dropout, forwardOnly = false }: { dropout?: Dropout | undefined; forwardOnly?: boolean } = {},
): TrainingPass {
  const scaling = loraScaling(adapter.config);
  const last = config.layers - 1;
  const adapted = adapter.blocks.findIndex((block) => Object.keys(block).length > 0);
  const lowest = adapted < 0 || forwardOnly ? config.layers : adapted;
  /** A block's weights, with the adapter merged in unless there is dropout. */
  const weightsOf = (i: number): Block => {
    const base = blockOf(parameters.blocks[i]!);
    return dropout ? base : mergeBlock(config, base, adapter.blocks[i]!, scaling);
  };
  const lowRank = (i: number): LowRankPart => ({ config, block: i, adapter: adapter.blocks[i]!, scaling, dropout });

  const { hidden, top, traces } = tf.tidy(() => {
    const traces: Trace[] = [];
    const grid = layGrid(config, packed, 0, MOST_SCORES);
    const chosen = tf.tensor1d(at, 'int32');
    let x = embed(config, parameters, packed.ids);
    parameters.blocks.forEach((stored, i) => {
      const made = tf.tidy(() => {
        const block = weightsOf(i);
        const { out, rotated, attended, middle, gate, up } = runBlock(config, block, x, grid, {
          chosen: i === last ? chosen : undefined,
          addTo: dropout && ((...args) => addLowRank(lowRank(i), ...args)),
        });
        const kept = { rotated, attended, middle, gate, up, ...(!('load' in stored) && { block }) };
        return i < lowest ? { out } : { out, trace: kept };
      });
      if (made.trace) traces.push({ ...made.trace, x });
      else x.dispose();
      x = made.out;
    });
    return { hidden: rmsNorm(x, parameters.norm, grid.shared), top: x, traces };
  });

  const base = new Set(leaves(parameters).map(([, weight]) => weight));
  const free = (trace: Trace) => tf.dispose(leaves(trace).flatMap(([, leaf]) => (base.has(leaf) ? [] : [leaf])));
  const dispose = () => {
    tf.dispose([hidden, top]);
    traces.splice(0).forEach(free);
  };

  const backward = (gradient: Tensor2D): AdapterBlock[] => {
    if (forwardOnly) throw new Error('a forward-only pass has no gradients');
    const gradients = adapter.blocks.map((): AdapterBlock => ({}));
    tf.tidy(() => {
      const grid = layGrid(config, packed, 0, MOST_SCORES);
      const backwardGrid = layBackwardGrid(config, grid);
      const spread = spreader(at, packed.n);
      let d = rmsNormBackward(top, parameters.norm, gradient, grid.shared);
      for (let i = last; i >= lowest; i--) {
        const trace = traces.pop()!;
        const step = tf.tidy(() =>
          blockBackward(lowRank(i), trace.block ?? weightsOf(i), trace, d, {
            grid,
            backwardGrid,
            spread: i === last ? spread : undefined,
            to: i > lowest,
          }),
        );
        gradients[i] = step.gradients;
        d.dispose();
        if (step.dx) d = step.dx;
        free(trace);
      }
      for (const block of gradients)
        for (const part of Object.values(block)) [part.a, part.b].forEach((t) => tf.keep(t));
    });
    dispose();
    return gradients;
  };
  return { hidden, backward, dispose };
}

/** Rows [p, c] put where their tokens are among n; the others are 0. A token chosen twice gets the sum. */
function spreader(at: Int32Array, n: number): (rows: Tensor2D) => Tensor2D {
  const where = tf.tensor2d(at, [at.length, 1], 'int32');
  return (rows) => tf.scatterND(where, rows, [n, rows.shape[1]]);
}

interface LowRankPart {
  config: ModelConfig;
  /** The index of the block. */
  block: number;
  adapter: AdapterBlock;
  scaling: number;
  dropout: Dropout | undefined;
}

/** Adds the low-rank outputs of a product's targets to its matrices' outputs. */
function addLowRank(
  { config, block, adapter, scaling, dropout }: LowRankPart,
  product: Product,
  input: Tensor2D,
  outputs: Tensor2D[],
): Tensor2D[] {
  const targets = PRODUCTS[product];
  if (!targets.some((target) => adapter[target])) return outputs;
  const added = targets.map((target) => {
    const part = adapter[target];
    return part
      ? lowRankOutput(input, part, scaling, maskOf(dropout, block, target, input))
      : tf.zeros<Tensor2D['rankType']>([input.shape[0], targetShape(config, target).outputs]);
  });
  // The outputs of q, k and v are one matrix.
  return product === 'qkv' ? [tf.add(outputs[0]!, tf.concat(added, 1))] : outputs.map((y, i) => tf.add(y, added[i]!));
}

interface Backwards {
  grid: Grid;
  backwardGrid: BackwardGrid;
  /** In the last block: from the chosen tokens to all. */
  spread: ((rows: Tensor2D) => Tensor2D) | undefined;
  /** Whether a gradient by the block's input is wanted. */
  to: boolean;
}

/** One block backwards, from the gradient d by its output. To be called in a `tidy`. */
function blockBackward(
  part: LowRankPart,
  block: Block,
  { x, rotated, attended, middle, gate, up }: Trace,
  d: Tensor2D,
  { grid, backwardGrid, spread = (rows) => rows, to }: Backwards,
): { gradients: AdapterBlock; dx?: Tensor2D } {
  const { config, adapter, scaling, dropout } = part;
  const gradients: AdapterBlock = {};
  /** Takes the gradients of a product's low-rank parts; gives that by their input, where dropout parts them from W. */
  const through = (product: Product, input: Tensor2D, outputs: Tensor2D[], dInput: Tensor2D): Tensor2D => {
    let sum = dInput;
    PRODUCTS[product].forEach((target, i) => {
      const low = adapter[target];
      if (!low) return;
      const mask = maskOf(dropout, part.block, target, input);
      const { gradient, dx } = lowRankBackward(input, outputs[i]!, low, scaling, mask);
      gradients[target] = gradient;
      if (dx) sum = tf.add(sum, dx);
    });
    return sum;
  };
  const weight = (name: keyof Block) => block[name] as Tensor2D;

  const siluGate = silu(gate);
  const dGated = through('down', tf.mul(siluGate, up), [d], matmul(d, weight('down'), { transposeB: true }));
  const { dGate, dUp } = swiGluBackward(gate, up, siluGate, dGated);
  const inner = rmsNorm(middle, block.mlpNorm, grid.shared);
  const straight = tf.add<Tensor2D>(matmul(dGate, weight('gate')), matmul(dUp, weight('up')));
  const dInner = through('gateUp', inner, [dGate, dUp], straight);
  const dMiddle = tf.add<Tensor2D>(d, rmsNormBackward(middle, block.mlpNorm, dInner, grid.shared));
  const dOut = matmul(dMiddle, weight('attentionOut'), { transposeB: true });
  const dAttended = through('attentionOut', attended, [dMiddle], dOut);
  const dQkv = attentionBackward(config, rotated, spread(dAttended), grid, backwardGrid);
  const { q, k, v } = adapter;
  const sizes = PRODUCTS.qkv.map((target) => targetShape(config, target).outputs);
  const normed = rmsNorm(x, block.attentionNorm, grid.shared);
  const outputs = q || k || v ? (tf.split(dQkv, sizes, 1) as unknown as Tensor2D[]) : [];
  const dIn = to ? matmul(dQkv, weight('qkv'), { transposeB: true }) : tf.zerosLike(normed);
  const dNormed = through('qkv', normed, outputs, dIn);
  if (!to) return { gradients };
  return {
    gradients,
    dx: tf.add<Tensor2D>(spread(dMiddle), rmsNormBackward(x, block.attentionNorm, dNormed, grid.shared)),
  };
}
