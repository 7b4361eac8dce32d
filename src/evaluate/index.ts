export { openCache, ResponseCache } from './cache';
export { answersOf, type Answers } from './answers';
export { compareRows, type Comparison, type Difference, type Flip } from './compare';
export { evaluate, withPosthoc, withTemperature, type EvaluateOptions } from './evaluate';
export type { Generated } from './continue';
export { generateTexts, type GenerateTextsOptions } from './generate-texts';
export {
  evaluateGeneration,
  exactMatch,
  generateUntil,
  type ExactMatchOptions,
  type GenerationRequest,
} from './generation';
export { groupMean, type GroupMember } from './group-means';
export { importLmEval } from './import-lm-eval';
export { loglikelihood, type LogLikelihood } from './loglikelihood';
export { loadGenerationTask } from './generation-tasks';
export { defineGenerationTask, defineTask, type GenerationSpec, type TaskSpec } from './own-task';
export { evaluateTexts, loglikelihoodRolling, type PerplexityOptions } from './perplexity';
export {
  semanticCalibration,
  withMeaning,
  type AnswerSample,
  type MeaningOptions,
  type OpenRow,
  type SemanticOptions,
} from './open-ended';
export {
  clusterAnswers,
  clusterCorrect,
  embedding,
  entailment,
  equivalenceQuality,
  isCorrect,
  isRefusal,
  normaliseAnswer,
  normalised,
  readSemanticPairs,
  tokenF1,
  type Equivalence,
} from './semantic';
export { encodePair } from './prompts';
export { readResults, readRows, writeResults, type ResultSummary } from './results';
export { loadTask, taskNames } from './tasks';
export { loadTexts } from './text-tasks';
export type {
  Form,
  GenerationRow,
  GenerationTask,
  Metric,
  Normalisation,
  Result,
  Row,
  Scoring,
  Task,
  TaskOptions,
  TextRow,
  TextTask,
} from './types';
