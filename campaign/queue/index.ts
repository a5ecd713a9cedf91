export { QueuedCampaign } from './queue.js';
export type { CampaignState } from './state.js';
