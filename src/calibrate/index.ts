export { type CalmOptions, METHODS, parseOptions } from './options';
export { type Head, applyHead, clipHead, foldHead, headLoss, identityHead } from './head';
export { train, type TrainedModel, type TrainOptions } from './train';
export { fitTokenTemperature, type TokenTemperature } from './token-temperature';
export { applyTuning, loadTuning, readHead, writeHead, writeTuning, type TunedModel } from './tuned';
export {
  type TemperatureFit,
  type TemperatureOptions,
  type TemperatureStatus,
  applyTemperature,
  assertDisjoint,
  calibrationFromJson,
  calibrationToJson,
  fitTemperature,
  splitCalibration,
  temperatureNll,
  temperatureReport,
} from './temperature';
export {
  type PosthocFit,
  type PosthocMethod,
  type PosthocName,
  type PosthocOptions,
  type PosthocStatus,
  applyPosthoc,
  fitPosthoc,
  POSTHOC,
  posthocFromJson,
  posthocReport,
  posthocToJson,
} from './posthoc';
