export { engineHash } from './engine.js';
export { huntAll } from './hunts.js';
export { runShard, type Shard } from './local.js';
export {
  type CampaignPart,
  mergeParts,
  missingFrom,
  noPart,
  perMillionWords,
  rangesDone,
  totalOf,
  violatingRuns,
} from './part.js';
export { partError } from './part-check.js';
export { canWork, defaultWorkers } from './pool.js';
export { type RerunResult, rerunRange } from './rerun.js';
export { CampaignRanges, type CampaignSearch, type CampaignSpec, isLibrary, librariesOf } from './spec.js';
export { createThreadPool } from './thread-pool.js';
