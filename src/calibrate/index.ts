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
