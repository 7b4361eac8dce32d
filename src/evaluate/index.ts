export { evaluate, withTemperature, type EvaluateOptions } from './evaluate';
export { generateTexts, type Generated, type GenerateTextsOptions } from './generate-texts';
export { groupMean, type GroupMember } from './group-means';
export { loglikelihood, type LogLikelihood, type ScoreRequest } from './loglikelihood';
export { encodePair } from './prompts';
export { readResults, readRows, writeResults, type ResultSummary } from './results';
export { loadTask, taskNames, type TaskOptions } from './tasks';
export type { Form, Metric, Normalisation, Result, Row, Scoring, Task } from './types';
