export {
  type PosthocFit,
  type PosthocName,
  type PosthocOptions,
  applyPosthoc,
  fitPosthoc,
  POSTHOC,
  posthocReport,
} from './fit';
export { posthocFromJson, posthocToJson } from './files';
export { describePosthoc, posthocOptionsFromTexts } from './options';
export { type PosthocMethod, type PosthocStatus, type Uncalibrated } from './method';
export { type Construction } from './construction';
