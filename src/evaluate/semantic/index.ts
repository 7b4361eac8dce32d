export { clusterAnswers, clusterCorrect, type Linkage } from './cluster';
export { isCorrect, type CorrectnessOptions, type CorrectnessRule } from './correctness';
export {
  embedding,
  entailment,
  normalised,
  tokenF1,
  type EmbeddingOptions,
  type EntailmentOptions,
  type EntailmentPair,
  type Equivalence,
  type Phrase,
  type TextEquivalence,
} from './equivalence';
export { normaliseAnswer, shortAnswer } from './normalise';
export {
  equivalenceQuality,
  readSemanticPairs,
  type Agreement,
  type EquivalenceQuality,
  type SemanticPair,
} from './quality';
export { isEmptyAnswer, isRefusal } from './refusal';
export { tokenF1Score } from './token-f1';
