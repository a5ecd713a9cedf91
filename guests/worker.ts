import { parentPort, workerData } from 'node:worker_threads';
// Before anything that a guest may load.
import './host/installed.js';
import { type CampaignPlan, runCampaign } from './campaign.js';

await runCampaign(workerData as CampaignPlan, (news) => parentPort?.postMessage(news));
