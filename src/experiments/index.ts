export {
  besidePaper,
  claimsOf,
  figurePanels,
  sideBySide,
  type ClaimRow,
  type ComparedMetric,
  type ComparedValue,
} from './reproduce';
export { mcqaPlan, planTable, robustnessPlan, runStudy, type Scale, type Study, type StudyOptions } from './study';
export { makeToy } from './toy';
export { paperTable, type PaperRow, type PaperTable } from './paper';
export { readPlan, type CheckedPlan, type Plan, type PlannedMethod, type Setting, type Source } from './plan';
export { cancelSweep, previewSweep, sweep, type Preview, type Swept, type SweepOptions } from './sweep';
export {
  overSeeds,
  selectPoint,
  type Aggregate,
  type Configuration,
  type Selection,
  type SelectionStatus,
} from './select';
export { type Chosen, type CostLine, type HeadComparison, type Summary } from './summary';
export { type Cost, type Measured, type PointRow } from './types';
