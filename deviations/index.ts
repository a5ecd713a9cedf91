export { DEVIATIONS, rulesOf } from './catalogue.js';
export type { Deviation } from './deviation.js';
export { deviationsOf, lockPolicyOf, settingsOf } from './fields.js';
