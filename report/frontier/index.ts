export { pageAssets } from './assets.js';
export { frontierMap, mostColumns } from './map.js';
export { type EdgeCommand, frontierPage } from './page.js';
export { frontierSentence, phrase, settingWords, theorySentence } from './phrases.js';
