// The public table of contents, in the order data flows.
export { startEngine, tf, tree, Random, tensorsKept, type EngineInfo, type Tensor } from './engine';
export { CalmError, UsageError } from './base/errors';

// Text to batches.
export {
  benchmarksOf,
  dedupe,
  fetchTask,
  mcqaMixture,
  readOpenQuestions,
  readQuestions,
  splitByFraction,
  splitByTopic,
  type ChatMessage,
  type ChoiceQuestion,
  type OpenQuestion,
  type Tokenizer,
} from './data';

// Token ids to logits and text.
export { loadModel, loadTokenizer, renderMessages, type LanguageModel } from './pretrained';
export { generate, lastLogits, scoreContinuations, type GenerateOptions } from './model';

// (Probability, outcome) to numbers.
export {
  accuracy,
  adaptiveEce,
  adaptiveTable,
  auroc,
  binTable,
  bootstrapInterval,
  brier,
  brierDecomposition,
  classwiseEce,
  classwiseTotalTable,
  confEce,
  cwEce,
  logSoftmax,
  mce,
  nll,
  rmsEce,
  smoothEce,
  softmax,
  summarise,
  type BinRow,
  type CalibrationMetrics,
  type Prediction,
} from './metrics';

// Objective to parameters.
export { readTraining, toExamples, type Example, type TrainingData } from './train/examples';
export { addScaled, bomeStep, type BilevelProblem, type BomeOptions, type BomeStep } from './train/bome';

// Logits to honest probabilities.
export {
  applyTuning,
  loadTuning,
  train,
  type TrainedModel,
  type TrainOptions,
  type TunedModel,
  applyPosthoc,
  applyTemperature,
  assertDisjoint,
  calibrationFromJson,
  calibrationToJson,
  fitPosthoc,
  fitTemperature,
  fitTokenTemperature,
  headLoss,
  identityHead,
  posthocFromJson,
  posthocReport,
  posthocToJson,
  splitCalibration,
  temperatureReport,
  type PosthocFit,
  type PosthocStatus,
  type TemperatureFit,
  type TemperatureStatus,
  type TokenTemperature,
} from './calibrate';

// Model and task to result rows.
export {
  answersOf,
  compareRows,
  defineGenerationTask,
  defineTask,
  evaluate,
  evaluateGeneration,
  evaluateTexts,
  exactMatch,
  generateTexts,
  groupMean,
  importLmEval,
  loadGenerationTask,
  loadTask,
  loadTexts,
  loglikelihood,
  loglikelihoodRolling,
  openCache,
  readResults,
  readRows,
  taskNames,
  withPosthoc,
  withTemperature,
  writeResults,
  type Answers,
  type Comparison,
  type EvaluateOptions,
  type Form,
  type GenerationRow,
  type GenerationSpec,
  type GenerationTask,
  type GroupMember,
  type Metric,
  type Result,
  type PerplexityOptions,
  type ResponseCache,
  type Row,
  type Task,
  type TaskSpec,
  type TextRow,
  type TextTask,
} from './evaluate';

// Methods x models x settings x seeds to one row a run.
export {
  cancelSweep,
  overSeeds,
  paperTable,
  previewSweep,
  selectPoint,
  sweep,
  type Aggregate,
  type Chosen,
  type Configuration,
  type CostLine,
  type HeadComparison,
  type PaperTable,
  type Plan,
  type PlannedMethod,
  type PointRow,
  type Preview,
  type Selection,
  type SelectionStatus,
  type Summary,
  type SweepOptions,
  type Swept,
} from './experiments';

// Result rows to frames, tables and figures.
export {
  frame,
  panelOf,
  reliabilityData,
  reliabilityDiagram,
  renderPng,
  renderSvg,
  resultsTable,
  saveFigure,
  show,
  toCsv,
  toLatex,
  toMarkdown,
  type Panel,
  type VegaLiteSpec,
} from './report';
