export { type Prediction, type Predictions, checkPredictions } from './predictions';
export { softmax, logSoftmax, logSumExp } from './softmax';
export { type BinRow, binIndex, binTable, adaptiveTable } from './bins';
export { confEce, adaptiveEce, mce, rmsEce, averageCalibrationError, binaryEce } from './ece';
export { expectedGap, maximumGap, rmsGap, averageGap } from './ece';
export { type ClasswiseEce, cwEce, classwiseEce, classwiseTotalTable } from './classwise';
export { smoothEce, smoothEceAt, smoothBandwidth } from './smooth-ece';
export { type BrierDecomposition, brier, topLabelBrier, brierDecomposition } from './brier';
export { argmax, topLabel, accuracy, nll, meanEntropy } from './scores';
export { auroc } from './auroc';
export {
  type ClusterLabel,
  type SemanticConfidence,
  type SemanticQuestion,
  type SemanticRow,
  type SemanticVariant,
  SEMANTIC_VARIANTS,
  checkSemanticRows,
  semanticConfidence,
  semanticEce,
  semanticEntropy,
  semanticPairs,
  semanticTable,
} from './semantic';
export { type SemanticBootstrap, type SemanticMetrics, semanticBootstrap, semanticMetrics } from './semantic-summary';
export { type BootstrapInterval, bootstrapInterval } from './bootstrap';
export {
  type CalibrationMetrics,
  type ConfidenceMetrics,
  calibrationMetrics,
  confidenceMetrics,
  summarise,
} from './summary';
